"""A caller of the HTTP server without a socket: a transport in memory and a clock that the test moves."""

import asyncio
import socket
from dataclasses import dataclass

from conch_kit.http.asgi import Receive, Scope, Send
from conch_kit.http.caller_connection import connection as connection_of
from conch_kit.http_server.connection import HttpConnection
from conch_kit.http_server.limits import ConnectionLimits
from conch_kit.http_server.server import HttpServer
from testkit.waiting import eventually

LIMITS = ConnectionLimits(head_s=10, head_bytes=2000, body_s=30, idle_s=75, unread_s=30)


class CallerTransport(asyncio.Transport):
    """Notes whether it was told to stop reading, and how it was closed; `unread` bytes of it wait for the caller."""

    def __init__(self) -> None:
        super().__init__()
        self.reading = True
        self.written = b""
        self.unread = 0
        self.ended = ""
        self.sockets: list[socket.socket] = []
        """Ours and the caller's, once somebody asks for ours; nothing goes through them."""

    def get_extra_info(self, name: str, default: object = None) -> object:
        assert name == "socket"
        self.sockets = self.sockets or list(socket.socketpair())
        return self.sockets[0]

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def get_write_buffer_size(self) -> int:
        return self.unread

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.ended = self.ended or "half"

    def is_closing(self) -> bool:
        return self.ended in ("closed", "aborted")

    def close(self) -> None:
        self.ended = "closed"

    def abort(self) -> None:
        self.ended = "aborted"

    def close_sockets(self) -> None:
        for each in self.sockets:
            each.close()


@dataclass(frozen=True, slots=True)
class TakenRequest:
    """What the application got of a request."""

    method: str
    target: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    """As they are when the application answers."""
    body: bytes


class PlayedCaller:
    """A connection from its caller's side."""

    def __init__(self) -> None:
        self.goes_on = asyncio.Event()
        """What the application waits for before it answers."""
        self.bodies: list[bytes] = []
        self.taken: list[TakenRequest] = []
        self.errors: list[BaseException] = []
        self.server = HttpServer(self._app, LIMITS)
        self.time = asyncio.get_running_loop().time()
        self.server.now = lambda: self.time
        self.lost = False
        self.transport = CallerTransport()
        self.connection = HttpConnection(self.server)
        self.connection.connection_made(self.transport)

    @property
    def answers(self) -> bytes:
        return self.transport.written

    def sends(self, data: bytes) -> None:
        self.connection.data_received(data)

    def waits(self, seconds: float) -> None:
        self.time += seconds
        if self.time >= self.connection.when:
            self.connection.due(self.time)

    def hangs_up(self) -> None:
        if not self.lost:
            self.lost = True
            self.transport.ended = self.transport.ended or "closed"
            self.connection.connection_lost(None)
            self.transport.close_sockets()

    async def answered(self, count: int = 1) -> None:
        self.goes_on.set()
        await eventually(lambda: self.answers.count(b"HTTP/1.1 ") >= count, "the answer")
        await asyncio.sleep(0)

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._answer(scope, receive, send)
        except BaseException as error:
            self.errors.append(error)
            raise

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.goes_on.wait()
        if scope["path"] in ("/reads-later", "/breaks-off"):
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"one", "more_body": True})
        body = b""
        while scope["path"] != "/early":
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message["body"]
            if not message["more_body"]:
                break
        self.bodies.append(body)
        query = b"?" + scope["query_string"] if scope["query_string"] else b""
        self.taken.append(TakenRequest(scope["method"], scope["raw_path"] + query, tuple(scope["headers"]), body))
        if scope["path"] in ("/broken", "/breaks-off"):
            raise ValueError("broken")
        if scope["path"] == "/stream":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"one", "more_body": True})
            assert connection_of(scope).push(b"two")  # type: ignore[attr-defined]
            await send({"type": "http.response.body", "body": b"three"})
            return
        length = 5 if scope["path"] == "/wrong" else 2
        headers = [(b"content-length", b"%d" % length)]
        headers += [(b"x-bad", b"a\r\nb: c")] if scope["path"] == "/split" else []
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"ok"})
