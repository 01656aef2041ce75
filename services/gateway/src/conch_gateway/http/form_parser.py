"""From the pieces of a multipart/form-data body to its fields, within bounds; the bytes of the file pass through.

What the parser of python-multipart leaves open is refused: anything before the first boundary but line breaks, a body
without its end, parts without a name, encodings of parts, text that is not UTF-8. A part's own file name and media type
are not looked at: they prove nothing.
"""

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from conch_gateway.errors.bad_request import MAX_PARAM_CHARS, invalid
from conch_kit.errors import BodyTooLarge, InvalidRequest, UnprocessableContent, UnsupportedMediaType

MAX_PARTS = 64
MAX_FIELD_BYTES = 64 * 1024
MAX_NAME_BYTES = 256
MAX_HEADERS = 8
"""Of one part."""
MAX_HEADER_BYTES = 4096
"""Of one line in the head of a part."""

_BOUNDARY = re.compile(rb"[0-9A-Za-z'()+_,\-./:=? ]{0,69}[0-9A-Za-z'()+_,\-./:=?]")
_PLAIN_ENCODINGS = (b"7bit", b"8bit", b"binary")
_TOO_MUCH = {
    "Maximum header size exceeded": f"a line in the head of a part has more than {MAX_HEADER_BYTES} bytes; give the "
    "file a shorter name",
    "Maximum header count exceeded": f"a part has more than {MAX_HEADERS} headers; leave out all but "
    "content-disposition and content-type",
}
"""What the parser calls what it does not take, and what a client is told."""
_SILENT = logging.Logger("python_multipart", logging.CRITICAL + 1)
"""The parser warns of whatever is wrong with a body; its client hears of that."""


@dataclass(frozen=True, slots=True)
class FormField:
    """A field that is no file."""

    name: str
    text: str


def boundary_of(headers: Mapping[bytes, bytes]) -> bytes:
    """Return what stands between the parts; raises UnsupportedMediaType where the body is no form, InvalidRequest."""
    encoding = headers.get(b"content-encoding", b"identity").strip().lower()
    if encoding not in (b"", b"identity"):
        raise UnsupportedMediaType("Expected a body without content-encoding; compressed bodies are not accepted.")
    kind, options = parse_options_header(headers.get(b"content-type"))
    if kind.strip() != b"multipart/form-data":
        raise UnsupportedMediaType("Expected content-type multipart/form-data.")
    boundary = options.get(b"boundary", b"")
    if not _BOUNDARY.fullmatch(boundary):
        raise invalid_form("the content-type names no boundary of 1 to 70 characters")
    return boundary


def invalid_form(why: str) -> InvalidRequest:
    """Return the error for a body that is not what its content type says."""
    return InvalidRequest(f"The body is not valid multipart/form-data: {why}.", code="invalid_multipart")


class FormParser:
    """The state of one form that arrives; everything that takes bytes raises a ServiceError for what is wrong."""

    def __init__(
        self, boundary: bytes, file_name: str, on_file: Callable[[bytes], None], *, max_file_bytes: int
    ) -> None:
        """`file_name` is the field whose bytes go to `on_file`."""
        self.fields: list[FormField] = []
        self.has_file = False
        self.complete = False
        """Whether the form has come to its end."""
        self.file_bytes = 0
        self._file_name = file_name
        self._on_file = on_file
        self._max_file_bytes = max_file_bytes
        self._first = b"--" + boundary
        """What a form begins with, until that has come."""
        self._begin = b""
        self._parts = 0
        self._names: list[bytes] = []
        self._values: list[bytes] = []
        self._in_file = False
        self._is_file = False
        """Whether the part has a file name, whatever its field."""
        self._name = ""
        self._text: list[bytes] = []
        self._text_bytes = 0
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._part_begins,
                "on_header_begin": self._header_begins,
                "on_header_field": self._add_header_name,
                "on_header_value": self._add_header_value,
                "on_headers_finished": self._head_ends,
                "on_part_data": self._take,
                "on_part_end": self._part_ends,
                "on_end": self._ends,
            },
            max_header_count=MAX_HEADERS,
            max_header_size=MAX_HEADER_BYTES,
        )
        self._parser.logger = _SILENT

    def feed(self, data: bytes) -> None:
        """Take a piece of the body; what comes behind the form's end is passed over."""
        if self._first:
            data = self._begun(data)
        try:
            self._parser.write(data)
        except FormParserError as error:
            why = _TOO_MUCH.get(str(error), "a boundary, or the head of a part, is malformed")
            raise invalid_form(why) from None

    def finish(self) -> None:
        """Hear that the body has ended; raises InvalidRequest where the form has not."""
        if not self.complete:
            raise invalid_form("it ends before its last boundary")

    def _begun(self, data: bytes) -> bytes:
        """Return what has come if that begins as a form does; nothing while it is too little to tell."""
        self._begin = (self._begin + data).lstrip(b"\r\n")
        if not self._first.startswith(self._begin[: len(self._first)]):
            raise invalid_form("it does not begin with a boundary")
        if len(self._begin) < len(self._first):
            return b""
        begin, self._begin, self._first = self._begin, b"", b""
        return begin

    # --- the parser calls these ------------------------------------------------------------------

    def _part_begins(self) -> None:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise invalid_form(f"expected at most {MAX_PARTS} parts")
        self._names, self._values, self._in_file = [], [], False
        self._text, self._text_bytes = [], 0

    def _header_begins(self) -> None:
        self._names.append(b"")
        self._values.append(b"")

    def _add_header_name(self, data: bytes, start: int, end: int) -> None:
        self._names[-1] += data[start:end].lower()

    def _add_header_value(self, data: bytes, start: int, end: int) -> None:
        self._values[-1] += data[start:end]

    def _head_ends(self) -> None:
        name, self._is_file = _disposition(self._names, self._values)
        self._name = name
        if name != self._file_name:
            return
        if not self._is_file:
            raise UnprocessableContent(
                f"Expected '{name}' to be a file, found a text: its part has no 'filename'.", param=name
            )
        if self.has_file:
            raise twice(name)
        self.has_file = self._in_file = True

    def _take(self, data: bytes, start: int, end: int) -> None:
        size = end - start
        if self._in_file:
            self.file_bytes += size
            if self.file_bytes > self._max_file_bytes:
                raise too_large(self._max_file_bytes, self._file_name)
            self._on_file(data[start:end] if size < len(data) else data)
            return
        self._text_bytes += size
        if self._text_bytes > MAX_FIELD_BYTES:
            raise self._no_text(f"expected at most {MAX_FIELD_BYTES} bytes")
        self._text.append(data[start:end])

    def _part_ends(self) -> None:
        if self._in_file:
            self._in_file = False
            return
        self.fields.append(FormField(self._name, self._read_text()))

    def _ends(self) -> None:
        self.complete = True

    def _read_text(self) -> str:
        try:
            text = b"".join(self._text).decode()
        except UnicodeDecodeError:
            raise self._no_text("expected text in UTF-8") from None
        if "\0" in text:
            raise self._no_text("expected text without the character NUL")
        return text

    def _no_text(self, why: str) -> InvalidRequest:
        """Return the error for a field that holds no text; some clients send text with a file name too."""
        if self._is_file:
            why = f"expected text, found a file; send the file in the field '{self._file_name}'"
        return invalid(self._name[:MAX_PARAM_CHARS], why)


def twice(name: str) -> InvalidRequest:
    """Return the error for a field that there is more than once."""
    return invalid(name[:MAX_PARAM_CHARS], "it is given more than once")


def too_large(limit: int, name: str) -> BodyTooLarge:
    """Return the error for a file above the limit, in OpenAI's words."""
    return BodyTooLarge(
        f"Maximum content size limit ({limit}) exceeded. Compress the file, as mp3 for one, or send it in pieces.",
        param=name,
    )


def _disposition(names: Sequence[bytes], values: Sequence[bytes]) -> tuple[str, bool]:
    """Return the name in the head of a part, and whether the part is a file; raises InvalidRequest."""
    headers = dict(zip(names, values, strict=True))
    if len(headers) != len(names):
        raise invalid_form("a part has a header more than once")
    encoding = headers.get(b"content-transfer-encoding", b"binary").strip().lower()
    if encoding not in _PLAIN_ENCODINGS:
        raise invalid_form("a part has a content-transfer-encoding; send it as it is")
    disposition = headers.get(b"content-disposition")
    kind, options = parse_options_header(disposition)
    name = options.get(b"name", b"")
    if kind.strip() != b"form-data" or not name:
        raise invalid_form("a part has no content-disposition with a name")
    if len(name) > MAX_NAME_BYTES:
        raise invalid_form(f"expected names of at most {MAX_NAME_BYTES} bytes")
    extended = disposition is not None and b"filename*" in disposition.lower()
    try:
        return name.decode(), b"filename" in options or extended
    except UnicodeDecodeError:
        raise invalid_form("a part's name is not UTF-8") from None
