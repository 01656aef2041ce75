"""The server against callers that send anything, and against another reader of HTTP: h11.

What the server takes, h11 takes with the same meaning; else a proxy before us could be made to see other requests than
we see. The server may refuse more. Its answers can be read to their end, whatever was sent.
"""

import asyncio
from dataclasses import replace

import h11
from hypothesis import given
from hypothesis import strategies as st

from testkit.http.http_caller import PlayedCaller, TakenRequest

_METHODS = st.sampled_from([b"GET", b"POST", b"HEAD", b"PUT", b"get", b"PRI", b"CONNECT", b"OPTIONS", b"G(T"])
_TARGETS = st.sampled_from(
    [b"/", b"/stream", b"/broken", b"/a?b=c", b"/%00%zz", b"*", b"http://x/", b"", b"//", b"/\xff", b"/ /"]
)
_VERSIONS = st.sampled_from([b"HTTP/1.1", b"HTTP/1.0", b"HTTP/0.9", b"HTTP/2.0", b"http/1.1", b"HTTP/1.1 ", b""])
_LINES = st.sampled_from(
    [
        b"host: x",
        b"Host: y",
        b"content-length: 0",
        b"content-length: 3",
        b"content-length: 5",
        b"Content-Length: 3, 3",
        b"content-length: +3",
        b"content-length: 0x3",
        b"content-length: 99999999999999999999",
        b"content-length : 3",
        b"content-length:3\t",
        b"transfer-encoding: chunked",
        b"Transfer-Encoding: CHUNKED",
        b"transfer-encoding: gzip, chunked",
        b"transfer-encoding: chunked, gzip",
        b"transfer-encoding: identity",
        b"transfer-encoding: xchunked",
        b"transfer-encoding:\x0bchunked",
        b"connection: close",
        b"connection: keep-alive",
        b"connection: upgrade",
        b"upgrade: websocket",
        b"upgrade: h2c",
        b"expect: 100-continue",
        b"x: " + b"y" * 1500,
        b" folded: x",
        b"\tfolded",
        b"no colon",
        b": no name",
        b"a b: c",
        b"x: a\x00b",
        b"x: a\rb",
        b"x: \xff",
    ]
)
_ENDS = st.sampled_from([b"\r\n"] * 12 + [b"\n", b"\r", b"\r\r\n"])
_BODIES = st.sampled_from(
    [
        b"",
        b"abc",
        b"hello",
        b"3\r\nabc\r\n0\r\n\r\n",
        b"3;x=y\r\nabc\r\n0\r\nt: v\r\n\r\n",
        b"3\nabc\n0\n\n",
        b"+3\r\nabc\r\n0\r\n\r\n",
        b"0x3\r\nabc\r\n0\r\n\r\n",
        b"3 \r\nabc\r\n0\r\n\r\n",
        b"3\r\nabcd\r\n0\r\n\r\n",
        b"ffffffffffffffff\r\nabc",
        b"0\r\n\r\n",
        b"0\r\nhost: z\r\n\r\n",
        b"3\r\nabc\r\n0\r\nconnection: close\r\n\r\n",
        b"0\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n",
        b"0\r\ntransfer-encoding: chunked\r\n\r\n",
        b"0\r\ncontent-length: 5\r\n\r\nhello",
    ]
)


@st.composite
def _requests(draw: st.DrawFn) -> bytes:
    plain = draw(st.integers(0, 3))
    method = draw(_METHODS) if plain == 0 else draw(st.sampled_from([b"GET", b"POST"]))
    target = draw(_TARGETS) if plain < 2 else b"/"
    version = draw(_VERSIONS) if plain == 0 else b"HTTP/1.1"
    lines = [b"%b %b %b" % (method, target, version), *([b"host: x"] if plain else [])]
    lines += draw(st.lists(_LINES, max_size=4))
    return b"".join(line + draw(_ENDS) for line in [*lines, b""]) + draw(_BODIES)


_SENT = st.lists(st.one_of(_requests(), _requests(), _requests(), st.binary(max_size=30)), min_size=1, max_size=4)


@given(sent=_SENT, cut=st.integers(1, 200), silence=st.booleans())
def test_what_the_server_takes_another_reader_takes_with_the_same_meaning(
    sent: list[bytes], cut: int, silence: bool
) -> None:
    data = b"".join(sent)

    async def play() -> None:
        caller = PlayedCaller()
        caller.goes_on.set()
        for at in range(0, len(data), cut):
            await _settle(caller)
            if caller.transport.is_closing():
                break
            caller.sends(data[at : at + cut])
        await _settle(caller)
        taken, left = _taken_by_another(data, len(caller.taken))
        assert [_meaning(request) for request in caller.taken] == taken
        if not (left or caller.transport.ended):  # who is between two requests may send the next
            caller.sends(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            await _settle(caller)
            assert len(caller.taken) == len(taken) + 1
        if silence:
            caller.waits(1000)
            await _settle(caller)
        _read_answers(caller)
        caller.hangs_up()
        await asyncio.wait_for(caller.server.finish(), 10)

    asyncio.run(play())


async def _settle(caller: PlayedCaller) -> None:
    """Let requests run until they wait for more."""
    for _ in range(10):
        await asyncio.sleep(0)


def _taken_by_another(data: bytes, count: int) -> tuple[list[TakenRequest], bytes]:
    """Return the first requests that h11 reads, fewer than `count` where it refuses one, and what is behind them.

    Where no other request may follow, something is behind them.
    Empty lines before a request are passed over (RFC 9112, section 2.2), of which h11 knows CR LF alone.
    """
    taken: list[TakenRequest] = []
    left = data
    while len(taken) < count:
        reader = h11.Connection(h11.SERVER, max_incomplete_event_size=10_000)
        reader.receive_data(left.lstrip(b"\r\n"))
        head, body = None, b""
        try:
            while not isinstance(event := reader.next_event(), h11.EndOfMessage):
                if isinstance(event, h11.Request):
                    head = event
                    if head.method == b"CONNECT":  # the server reads nothing behind one
                        return [*taken, _meaning(_request(head, b""))], left
                elif isinstance(event, h11.Data):
                    body += event.data
                else:
                    return taken, left
            assert head is not None
            taken.append(_meaning(_request(head, body)))
            behind = reader.trailing_data[0]
            reader.send(h11.Response(status_code=400, headers=[("content-length", "0")]))
            reader.send(h11.EndOfMessage())
            reader.start_next_cycle()
            left = behind.lstrip(b"\r\n")
        except h11.ProtocolError:
            return taken, left or data
    return taken, left


def _request(head: h11.Request, body: bytes) -> TakenRequest:
    return TakenRequest(head.method.decode(), head.target, tuple(head.headers), body)


def _meaning(request: TakenRequest) -> TakenRequest:
    """Return a request without offers of other protocols, which are passed over, and its coding as h11 writes it."""
    headers = [(name, value.lower() if name == b"transfer-encoding" else value) for name, value in request.headers]
    return replace(request, headers=tuple(header for header in headers if header[0] != b"upgrade"))


def _read_answers(caller: PlayedCaller) -> None:
    """Read what was answered, and check that nothing follows the last whole answer unless the connection has ended."""
    left, ended = caller.answers, bool(caller.transport.ended)
    # An answer of 200 to a CONNECT has no end for a client.
    methods = ["GET" if request.method == "CONNECT" else request.method for request in caller.taken]
    for method in [*methods, "GET"]:
        if not left:
            return
        reader = h11.Connection(h11.CLIENT)
        reader.send(h11.Request(method=method, target="/", headers=[("host", "x")]))
        reader.send(h11.EndOfMessage())
        reader.receive_data(left)
        if ended:
            reader.receive_data(b"")
        goes_on = False
        while not isinstance(event := reader.next_event(), h11.EndOfMessage):
            if goes_on and event is h11.NEED_DATA and not ended:
                return  # the caller was told to send a body, and has not
            assert not isinstance(event, (h11.ConnectionClosed, type(h11.NEED_DATA))), left
            goes_on = isinstance(event, h11.InformationalResponse)
        left = reader.trailing_data[0]
    assert not left
