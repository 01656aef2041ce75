"""Bodies of multipart/form-data, as clients write them; and what is wrong with others."""

from collections.abc import Sequence

BOUNDARY = "3f1b-e2a9"
HEADERS = ((b"content-type", f"multipart/form-data; boundary={BOUNDARY}".encode()),)
AUDIO = b"RIFF\r\n--not the end\r\n" + bytes(range(256)) * 4
"""Bytes that a file may have; beginnings of boundaries are among them."""

Field = tuple[str, str | bytes]


def text_part(name: str, value: str | bytes) -> bytes:
    """Return the part of a field."""
    content = value if isinstance(value, bytes) else value.encode()
    return f'content-disposition: form-data; name="{name}"\r\n\r\n'.encode() + content


def file_part(content: bytes = AUDIO, name: str = "file", filename: str = "speech.wav") -> bytes:
    """Return the part of a file."""
    head = f'Content-Disposition: form-data; name="{name}"; filename="{filename}"\r\ncontent-type: audio/wav\r\n\r\n'
    return head.encode() + content


def parts(*written: bytes) -> bytes:
    """Return the form of these parts."""
    limit = f"--{BOUNDARY}".encode()
    return b"".join(limit + b"\r\n" + part + b"\r\n" for part in written) + limit + b"--\r\n"


def form(*fields: Field, content: bytes = AUDIO, file_last: bool = False) -> bytes:
    """Return a form with a file and these fields."""
    texts = [text_part(name, value) for name, value in fields]
    return parts(*texts, file_part(content)) if file_last else parts(file_part(content), *texts)


def pieces(body: bytes, size: int) -> Sequence[bytes]:
    """Return a body as it may arrive."""
    return [body[start : start + size] for start in range(0, len(body), size)]
