"""Requests and answers as bytes: for what no well-behaved client sends."""

import asyncio


def request(path: str, body: bytes, *lines: str, host: str | None = "host: x", method: str = "POST") -> bytes:
    """Return a request with a length and these header lines."""
    head = [f"{method} {path} HTTP/1.1", *([host] if host else []), f"content-length: {len(body)}", *lines, "", ""]
    return "\r\n".join(head).encode("latin-1") + body


def chunked(path: str, body: bytes, size: int = 65536) -> bytes:
    """Return a request whose body comes in chunks, without a length."""
    chunks = b"".join(
        b"%x\r\n%b\r\n" % (len(piece), piece)
        for piece in (body[start : start + size] for start in range(0, len(body), size))
    )
    return f"POST {path} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n".encode() + chunks + b"0\r\n\r\n"


def status_of(answer: bytes) -> int:
    """Return an answer's status; 0 when it is none."""
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else 0


async def first_answer(port: int, data: bytes, *, half_close: bool = False, wait_s: float = 60.0) -> bytes:
    """Send bytes on a connection of their own and return the first whole answer, or what came until its end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**24)
    try:
        writer.write(data)
        if half_close:
            writer.write_eof()
        async with asyncio.timeout(wait_s):
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length: "))
            return head + await reader.readexactly(int(length[16:]))
    except (asyncio.IncompleteReadError, ConnectionError) as exc:
        return exc.partial if isinstance(exc, asyncio.IncompleteReadError) else b""
    finally:
        writer.transport.abort()
