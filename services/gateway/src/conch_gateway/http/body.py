"""From the bytes of a request body to a JSON object that is safe to validate.

Bounds come before parsing; whatever Python's and Rust's parsers would read differently (duplicate keys, NaN, huge
integers, lone surrogates) is refused, so that no two parts of Conch can disagree about a request.
"""

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress

import jiter

from conch_gateway.errors.bad_request import MAX_PARAM_CHARS, invalid
from conch_gateway.errors.complexity import LONG, check_complexity, count, count_few
from conch_gateway.errors.nesting import MAX_DEPTH, check_depth
from conch_kit.errors import BodyTooLarge, InvalidRequest, UnsupportedMediaType
from conch_kit.http.asgi import ClientGone, Message, Receive

MAX_KEYS = 256
"""Keys of the top-level object."""
MAX_KEY_CHARS = 256
"""Characters of one key; no parameter's name is nearly as long."""
MAX_PASTED_BYTES = 256 * 1024
"""Of a body whose spaces may be others than those of JSON: nobody copies more from a page."""
MAX_MESSAGE_CHARS = 160

_ALIKE = bytes.maketrans(b"123456789E", b"000000000e")
_STRING_OR_SPACES = re.compile(
    rb'"(?:[^"\\]++|\\.)*+"?|(?P<space>(?:\xc2\xa0|\xe1\x9a\x80|\xe2\x80[\x80-\x8a\xaf]|\xe2\x81\x9f|\xe3\x80\x80|\xef\xbb\xbf)++)',
    re.DOTALL,
)
"""A string, though its end be missing; or no-break and wide spaces, and a byte order mark."""
_TOO_LARGE = (b"0" * 200, b"0e000", b"0e+000")
"""Every number that is too large for a float has one of these in it when its digits are alike; hardly any text does.

A search for one fixed text is many times faster than one for any digits, or for an expression: there may be a million
numbers, or as many of the letter that begins an exponent.
"""


def check_media_type(headers: Mapping[bytes, bytes]) -> None:
    """Refuse bodies that are compressed or not JSON in UTF-8; a missing content type counts as JSON."""
    encoding = headers.get(b"content-encoding", b"identity").strip().lower()
    if encoding not in (b"", b"identity"):
        raise UnsupportedMediaType("Expected a body without content-encoding; compressed bodies are not accepted.")
    content_type = headers.get(b"content-type")
    if content_type is None or content_type == b"application/json":
        return
    kind, *parameters = (part.strip().lower() for part in content_type.split(b";"))
    if kind != b"application/json":
        raise UnsupportedMediaType("Expected content-type application/json.")
    for parameter in parameters:
        name, _, value = parameter.partition(b"=")
        if name.strip() == b"charset" and value.strip(b'" ') not in (b"utf-8", b"utf8"):
            raise UnsupportedMediaType("Expected charset utf-8.")


async def read(receive: Receive, headers: Mapping[bytes, bytes], *, limit: int) -> bytes:
    """Read a whole body of at most `limit` bytes.

    Raises BodyTooLarge before reading when the length is announced, RequestTimeout, and ClientGone.
    """
    announced = headers.get(b"content-length", b"")
    if announced.isdigit() and (len(announced) > 18 or int(announced) > limit):
        raise BodyTooLarge(f"Expected a body of at most {limit} bytes.")
    pieces: list[bytes] = []
    size = 0
    while True:
        message: Message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        piece: bytes = message.get("body", b"")
        size += len(piece)
        if size > limit:
            raise BodyTooLarge(f"Expected a body of at most {limit} bytes.")
        pieces.append(piece)
        if not message.get("more_body", False):
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def parse(body: bytes) -> dict[str, object]:
    """Return the JSON object that the body holds; raises InvalidRequest with the position of what is wrong."""
    check_complexity(body)
    document = _read(body)
    if not isinstance(document, dict):
        raise InvalidRequest("Expected the body to be a JSON object.")
    if len(document) > MAX_KEYS:
        raise InvalidRequest(f"Expected an object with at most {MAX_KEYS} keys.")
    if len(body) > MAX_KEY_CHARS and any(len(key) > MAX_KEY_CHARS for key in document):
        raise InvalidRequest(f"Expected keys of at most {MAX_KEY_CHARS} characters.")
    # A body with few brackets cannot be deep; that spares the walk for nearly every request.
    if count(body, b"[{") > MAX_DEPTH:
        for name, value in document.items():
            check_depth(value, name, MAX_DEPTH - 1)
    few_values = len(body) > LONG and count_few(body, b",:") is not None
    if few_values or _may_overflow(body):
        _check_finite(document)
    return document


def _read(body: bytes) -> object:
    """Return what the body says; between tokens the spaces of a page that it was copied from are spaces too."""
    try:
        return _json(body)
    except ValueError as exc:
        plain = _STRING_OR_SPACES.sub(_plain, body) if len(body) <= MAX_PASTED_BYTES else body
        if plain != body:
            with suppress(ValueError):
                return _json(plain)
        raise InvalidRequest(f"The body is not valid JSON: {_position(str(exc))}.") from None


def _json(body: bytes) -> object:
    document: object = jiter.from_json(body, allow_inf_nan=False, catch_duplicate_keys=True, cache_mode="none")
    return document


def _plain(found: re.Match[bytes]) -> bytes:
    """Return a string as it is, and a space of any other kind as JSON's own."""
    return b" " if found["space"] else found[0]


def _may_overflow(body: bytes) -> bool:
    alike = body.translate(_ALIKE)
    return any(sign in alike for sign in _TOO_LARGE)


def _check_finite(document: dict[str, object]) -> None:
    """Refuse a number that became infinite: whoever reads it next could not write it as JSON again."""
    for path, value in _leaves(document):
        if isinstance(value, float) and not math.isfinite(value):
            raise invalid(".".join(path)[:MAX_PARAM_CHARS], "expected a finite number")


def _leaves(document: object) -> Iterator[tuple[tuple[str, ...], object]]:
    """Yield whatever is no object and no list, with its path."""
    waiting: list[tuple[tuple[str, ...], object]] = [((), document)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [((*path, key), inner) for key, inner in value.items()]
        elif isinstance(value, list):
            waiting += [((*path, str(index)), inner) for index, inner in enumerate(value)]
        else:
            yield path, value


def _position(message: str) -> str:
    """Keep the parser's reason and position, but not a long key that it quotes."""
    if len(message) <= MAX_MESSAGE_CHARS:
        return message
    reason, _, position = message.rpartition(" at line ")
    return f"{reason[:60]}... at line {position}"
