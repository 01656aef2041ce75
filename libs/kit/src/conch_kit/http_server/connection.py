"""One caller's connection: bytes become requests within bounds, one after another, and their answers go back.

A head has a size, a time, one Host and a plain path; without these bounds a caller may hold a connection for ever with
half a header, or say to a proxy before us something else than to us. `Deadlines` look at its times.
"""

import asyncio
import os
from collections.abc import Callable
from math import inf
from typing import cast

import httptools

from conch_kit.http_server.awaited import Awaited
from conch_kit.http_server.caller_reading import CallerReading
from conch_kit.http_server.connection_server import ConnectionServer
from conch_kit.http_server.framing import Framing
from conch_kit.http_server.limits import LINGER_BYTES, LINGER_S, PAGE_BYTES
from conch_kit.http_server.refusal import refusal
from conch_kit.http_server.request import Request
from conch_kit.http_server.request_head import RequestHead
from conch_kit.http_server.unparsed_bytes import UnparsedBytes
from conch_kit.http_server.unread_end import UnreadEnd


class HttpConnection(asyncio.Protocol):
    """A connection; in the scope of its requests it is a `CallerConnection`."""

    __slots__ = (
        "_answering",
        "_awaited",
        "_awaited_due",
        "_framing",
        "_head",
        "_limits",
        "_offers_upgrade",
        "_parser",
        "_parsing",
        "_reading",
        "_refused",
        "_server",
        "_transport",
        "_turn",
        "_unparsed",
        "_unread",
        "_writable",
        "on_gone",
        "when",
        "write_paused",
    )

    def __init__(self, server: ConnectionServer) -> None:
        self.on_gone: Callable[[], None] | None = None
        self.write_paused = False
        self.when = inf
        """When the time is to be looked at, on the loop's clock."""
        self._server = server
        self._limits = server.limits
        self._turn = server.turn
        self._parser = self._new_parser()
        self._offers_upgrade = False
        self._transport = cast(asyncio.Transport, None)
        self._head = RequestHead()
        self._awaited, self._awaited_due = Awaited.NOTHING, inf
        self._answering: Request | None = None
        self._parsing: Request | None = None
        self._unparsed = UnparsedBytes()
        self._reading = cast(CallerReading, None)
        self._refused = False
        self._writable: asyncio.Event | None = None
        self._unread = cast(UnreadEnd, None)
        self._framing = Framing()

    # --- what requests, the work on them and the server ask of it ------------------------------------

    @property
    def gone(self) -> bool:
        """Whether the connection is lost, or about to be closed."""
        return self._transport.is_closing()

    def abort(self) -> None:
        """Drop the connection with all that waits to be written."""
        self._transport.abort()

    def push(self, data: bytes) -> bool:
        """Write a piece of the answer now; False, and nothing written, while the caller's buffer is full.

        Only for an answer whose start went out without a length. An empty piece only asks.
        """
        if self.write_paused or self._transport.is_closing() or self._answering is None:
            return False
        if data:
            self._answering.push(data)
        return True

    def allow_body(self, seconds: float) -> None:
        """Let the body of the request that is answered take so long, as long as each `body_s` brings some of it."""
        if self._answering is not None:
            self._answering.body_until = self._server.now() + seconds

    def detach(self) -> int:
        """Leave the connection to whoever gets the descriptor that is returned; it is open and must be closed."""
        self._transport.pause_reading()
        descriptor = os.dup(self._transport.get_extra_info("socket").fileno())
        self._transport.abort()
        return descriptor

    async def writable(self) -> None:
        """Wait until the caller has read most of what was written, or is gone."""
        if self.write_paused:
            if self._writable is None:
                self._writable = asyncio.Event()
            await self._writable.wait()

    def write(self, data: bytes) -> None:
        """Write a piece of an answer."""
        self._transport.write(data)

    def resume_reading(self) -> None:
        """Read on, unless something waits already."""
        if self._reading.due < inf and not self._unparsed.waiting:
            self._reading.resume()
            self._set_when()

    def answered(self) -> None:
        """Go on with the next request, or end; and watch that the caller reads the answer to this one."""
        request, self._answering = self._answering, None
        if request is None:
            return
        if not request.keeps_alive or self._server.closing or self.gone:
            self._end(whole=self.gone or (request.received and not self._unparsed.waiting))
        else:
            if self._awaited is Awaited.NOTHING:
                self._await_next()
            self._parse()
        self._unread.watch(self._server.now())
        self.resume_reading()
        self._set_when()

    def close(self) -> None:
        """End the connection behind what is written, as long as the caller reads that."""
        self._unread.close(self._server.now())
        self._set_when()

    def finish(self) -> None:
        """End the connection after the answer that is under way, or now."""
        if self._answering is None:
            self.close()
        else:
            self._answering.keeps_alive = False

    def due(self, now: float) -> None:
        """Do what the time asks for."""
        if now >= self._reading.due:
            self._reading.check(now)
        if now >= self._unread.due:
            self._unread.check(now, answering=self._answering is not None)
        self._set_when()
        if now >= self._awaited_due:
            awaited = self._awaited
            self._await(Awaited.NOTHING)
            if awaited is Awaited.BODY and self._parsing is not None and not self._parsing.complete:
                more_s = self._parsing.more_time_s(now, self._limits.body_s)
                if more_s > 0:
                    self._await(Awaited.BODY, more_s)
                else:
                    self._parsing.time_out(self._limits.body_s)
            elif awaited is Awaited.END and self._reading.lingers(now):
                self._await(Awaited.END, LINGER_S)
            elif awaited is not Awaited.HEAD:
                self.close()
            elif not self._transport.is_closing():
                self._refuse(408, f"The request's head did not arrive within {self._limits.head_s:g} s.")

    def _await(self, what: Awaited, seconds: float = inf) -> None:
        self._awaited = what
        self._awaited_due = self._server.now() + seconds if seconds < inf else inf
        self._set_when()

    def _set_when(self) -> None:
        self.when = min(self._awaited_due, self._unread.due, self._reading.due)

    def _await_next(self) -> None:
        """Wait for the next request, if no answer is under way."""
        if self._answering is None:
            self._await(Awaited.REQUEST, self._limits.idle_s)
        else:
            self._await(Awaited.NOTHING)

    # --- asyncio calls these ---------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for the first head."""
        self._transport = cast(asyncio.Transport, transport)
        self._reading = CallerReading(self._transport, self._turn)
        self._unread = UnreadEnd(self._transport, self._limits.unread_s)
        self._server.opened(self)
        self._await(Awaited.HEAD, self._limits.head_s)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whoever works for this caller."""
        self._await(Awaited.NOTHING)
        self._unparsed.clear()
        if self._answering is not None:
            self._answering.drop()
        self.resume_writing()
        self._answering = self._parsing = None  # these and the parser hold this connection
        del self._parser
        if self.on_gone is not None:
            self.on_gone()
        self._server.lost(self)

    def pause_writing(self) -> None:
        """Note that too much is unread."""
        self.write_paused = True

    def resume_writing(self) -> None:
        """Let those go on who wait for the caller to read."""
        self.write_paused = False
        if self._writable is not None:
            self._writable.set()
            self._writable = None

    def data_received(self, data: bytes) -> None:
        """Parse what has come, unless the caller was refused."""
        if self._refused:
            self._reading.discard(len(data))
            return
        self._unparsed.add(data)
        self._parse()

    # --- httptools calls these -------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Begin a head."""
        if self._awaited is not Awaited.HEAD and not self._refused:
            self._head = RequestHead()
            self._await(Awaited.HEAD, self._limits.head_s)

    def on_url(self, url: bytes) -> None:
        """Take a piece of the request's target."""
        self._head.add_target(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        self._head.add_header(name, value)

    def on_headers_complete(self) -> None:
        """Check the head as a whole, then let the application have the request."""
        if self._refused:
            return
        version = self._parser.get_http_version()
        method = self._parser.get_method()
        fault = self._framing.end_head() or self._head.excess(self._limits) or self._head.fault(version)
        if fault is not None:
            self._refuse(*fault)
            return
        self._offers_upgrade = self._parser.should_upgrade() and method != b"CONNECT"
        if self._offers_upgrade:
            return
        request = Request(
            self._head.scope(method, version, self),
            self,
            # The parser reads nothing behind a CONNECT.
            keeps_alive=version == "1.1" and method != b"CONNECT" and self._parser.should_keep_alive(),
            expects_continue=version == "1.1" and self._head.expects_continue,
            in_chunks=self._head.in_chunks,
        )
        self._unparsed.body_left = self._head.body_bytes
        # Trailers are no headers (RFC 9110, section 6.5.1): nobody sees the head that they go to.
        self._parsing, self._head = request, RequestHead("trailers", self._head.target)
        self._reading.left_to_discard = LINGER_BYTES
        self._answering = request
        self._await(Awaited.BODY, self._limits.body_s)
        self._server.start(request)

    def on_body(self, body: bytes) -> None:
        """Pass a piece of the body on, unless its request is answered already."""
        self._framing.pass_body(len(body))
        self._head.read_bytes = 0
        if self._parsing is not None and not self._parsing.complete:
            self._parsing.body_came_at = self._server.now()
            if not self._parsing.feed(body):
                self._pause_reading()

    def on_message_complete(self) -> None:
        """Pass the end of the body on, and read on."""
        request = self._parsing
        if request is not None and self._check_size():
            # The parser reads nothing behind trailers that end the connection.
            request.keeps_alive = request.keeps_alive and self._parser.should_keep_alive()
            request.end()
            self._parsing = None
            self._await_next()
            self.resume_reading()

    # --- the steps ---------------------------------------------------------------------------------------

    def _new_parser(self) -> httptools.HttpRequestParser:
        parser = httptools.HttpRequestParser(self)
        # What comes behind a last request is no error: its answer goes out first.
        parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return parser

    def _parse(self) -> None:
        """Feed the parser, but no further than to the end of a request that is under way, of bodies not all turn."""
        while self._unparsed.waiting:
            if self._answering is not None and self._parsing is None:
                self._pause_reading()
                return
            if self._parsing is not None and self._parsing.in_chunks and self._turn.spent:
                self._pause_reading()
                self._turn.wait(self._go_on)
                return
            self._parse_piece(self._unparsed.next_piece())

    def _go_on(self) -> None:
        if self._transport.is_closing():
            self._unparsed.clear()
        self._parse()
        if self._parsing is None or not self._parsing.full:
            self.resume_reading()

    def _parse_piece(self, piece: bytes) -> None:
        """Feed the parser, and count what it takes for a head, trailers, chunks or empty lines without end."""
        head, parsing, framing = self._head, self._parsing, self._framing
        if parsing is None:
            framing.take_head(piece)
        else:
            framing.take_body(piece)
            if parsing.complete:
                self._reading.discard(len(piece))
        try:
            self._parser.feed_data(piece)
        except httptools.HttpParserUpgrade:
            if self._offers_upgrade:
                self._pass_over_offer()
        except httptools.HttpParserError:
            self._refuse(400, "Invalid HTTP request received.")
        if parsing is not None and parsing.in_chunks:
            self._turn.spend(1 + framing.body_pieces + len(piece) // PAGE_BYTES)
        if self._awaited is Awaited.HEAD or (self._parsing is not None and head is self._head):
            if head is self._head and not framing.body_pieces:
                head.read_bytes += len(piece)
            self._check_size()
        if framing.too_much:
            self._refuse(*framing.too_much)

    def _pass_over_offer(self) -> None:
        """Read a head again without its offer of another protocol: behind one the parser reads no body."""
        old, self._parser = self._parser, self._new_parser()
        head, self._head = self._head, RequestHead()
        self._parse_piece(head.without_upgrade(old.get_method(), old.get_http_version()))

    def _pause_reading(self) -> None:
        self._reading.pause(self._server.now())
        self._set_when()

    def _check_size(self) -> bool:
        """Refuse a head or trailers of which there is too much; tell whether that is not so."""
        excess = self._head.excess(self._limits)
        if excess is not None:
            self._refuse(*excess)
        return excess is None

    def _refuse(self, status: int, message: str) -> None:
        """Answer without the application, and end; where the body of a request is refused, this is its answer."""
        if self._refused:
            return
        self._refused = True
        self._unparsed.clear()
        self._await(Awaited.NOTHING)
        current, parsing, self._answering, self._parsing = self._answering, self._parsing, None, None
        if current is not None:
            current.drop()
            if current.begun:
                self.close()
                return
        if parsing is None or parsing is current:  # else it has its answer, and what was refused is the rest of it
            self._transport.write(refusal(self._server.refusal_form, self._head.target, status, message))
        self._end(whole=False)

    def _end(self, *, whole: bool) -> None:
        """Say that nothing more comes, and read on for a while where a request has not come to its end.

        Bytes that are left unread reset the connection, and a caller that writes its whole request before it reads
        would never see the answer.
        """
        if whole:
            self.close()
            return
        self._refused = True
        self._unparsed.clear()
        self.resume_reading()
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._reading.linger(self._server.now())
        self._await(Awaited.END, LINGER_S)
