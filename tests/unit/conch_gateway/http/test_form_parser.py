"""Forms however they arrive, and what is none."""

import pytest

from conch_gateway.http.form_parser import (
    MAX_FIELD_BYTES,
    MAX_PARTS,
    FormField,
    FormParser,
    boundary_of,
)
from conch_kit.errors import BodyTooLarge, InvalidRequest, ServiceError, UnprocessableContent, UnsupportedMediaType
from testkit.http.forms import AUDIO, BOUNDARY, HEADERS, file_part, form, parts, pieces, text_part

FIELDS = [FormField("model", "whisper"), FormField("prompt", "Zoë -- \r\n--3f1b")]
PAIRS = [(field.name, field.text) for field in FIELDS]


def parsed(arrived, *, limit=10_000):
    kept = []
    parser = FormParser(BOUNDARY.encode(), "file", kept.append, max_file_bytes=limit)
    for piece in arrived:
        parser.feed(piece)
    parser.finish()
    return parser.fields, b"".join(kept), parser.has_file


@pytest.mark.parametrize("file_last", [False, True])
def test_a_form_is_the_same_wherever_it_is_split_in_two(file_last):
    body = form(*PAIRS, file_last=file_last)
    for at in range(len(body) + 1):
        assert parsed((body[:at], body[at:])) == (FIELDS, AUDIO, True), at


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 10_000])
def test_a_form_is_the_same_in_pieces_of_any_size(size):
    assert parsed(pieces(form(*PAIRS), size)) == (FIELDS, AUDIO, True)


@pytest.mark.parametrize(
    "content", [b"", b"\r", b"\r\n", b"\r\n--", f"\r\n--{BOUNDARY}x".encode(), b"-" * 100, b"\r\n" * 100]
)
def test_a_file_may_hold_what_looks_like_the_beginning_of_a_boundary(content):
    for size in (1, 5, 1000):
        assert parsed(pieces(form(content=content), size))[1] == content


def test_text_before_the_first_boundary_and_behind_the_last_means_nothing():
    whole, rest = b"\r\n" + form(*PAIRS), b"\r\n--more\r\n\0"
    for arrived in ([whole + rest], [whole, rest, form(*PAIRS), form(("model", "another"))]):
        assert parsed(arrived) == (FIELDS, AUDIO, True)


def test_a_form_without_a_file_says_so():
    assert parsed([parts(text_part("model", "whisper"))]) == (FIELDS[:1], b"", False)
    assert parsed([f"--{BOUNDARY}--\r\n".encode()]) == ([], b"", False)


@pytest.mark.parametrize("filename", ["", "a.wav", "Zoë;.wav", "C:\\\\x"])
def test_a_file_may_be_called_anything(filename):
    assert parsed([parts(file_part(filename=filename))])[1] == AUDIO


def test_a_file_whose_name_has_the_extended_form_is_a_file():
    part = b"content-disposition: form-data; name=file; filename*=UTF-8''a.wav\r\n\r\nabc"
    assert parsed([parts(part)])[1] == b"abc"


def plain(name):
    return text_part(name, "x")


BAD = {
    "nothing": b"",
    "no boundary at all": b"hello",
    "another boundary": form().replace(BOUNDARY.encode(), b"other"),
    "its end is missing": form()[: -len(BOUNDARY) - 8],
    "its file has no end": form().partition(b"RIFF")[0] + b"RIFF",
    "a head without an end": f"--{BOUNDARY}\r\ncontent-disposition: form-data; name=file".encode(),
    "too many parts": parts(*(plain(f"f{n}") for n in range(MAX_PARTS + 1))),
    "no disposition": parts(b"content-type: text/plain\r\n\r\nx"),
    "another disposition": parts(b"content-disposition: attachment; name=model\r\n\r\nx"),
    "no name": parts(b"content-disposition: form-data\r\n\r\nx"),
    "a name that is empty": parts(b'content-disposition: form-data; name=""\r\n\r\nx'),
    "a name that is no UTF-8": parts(b'content-disposition: form-data; name="\xff"\r\n\r\nx'),
    "a name that is long": parts(plain("n" * 257)),
    "a header twice": parts(b"content-disposition: form-data; name=a\r\n" + plain("b")),
    "many headers": parts(b"".join(b"x-%d: y\r\n" % n for n in range(9)) + plain("a")),
    "a header without end": parts(b"x-a: " + b"y" * 10_000 + b"\r\n" + plain("a")),
    "a header that is none": parts(b"x a: y\r\n" + plain("a")),
    "base64": parts(b"content-transfer-encoding: base64\r\n" + plain("a")),
}


@pytest.mark.parametrize("body", BAD.values(), ids=BAD.keys())
@pytest.mark.parametrize("size", [1, 100_000])
def test_what_is_no_form_is_refused(body, size):
    with pytest.raises(InvalidRequest) as caught:
        parsed(pieces(body, size))
    assert caught.value.code == "invalid_multipart"
    assert len(caught.value.message) < 200


@pytest.mark.parametrize(
    ("body", "kind", "param", "code"),
    [
        (form(("model", "a\0b")), InvalidRequest, "model", "invalid_value"),
        (form(("model", b"\xff")), InvalidRequest, "model", "invalid_value"),
        (form(("model", "x" * (MAX_FIELD_BYTES + 1))), InvalidRequest, "model", "invalid_value"),
        (parts(file_part(), file_part()), InvalidRequest, "file", "invalid_value"),
        (parts(text_part("file", "abc")), UnprocessableContent, "file", "invalid_value"),
        (form(content=b"x" * 10_001), BodyTooLarge, "file", "request_too_large"),
        (parts(file_part(b"\xff", name="audio")), InvalidRequest, "audio", "invalid_value"),
    ],
)
def test_what_is_wrong_with_a_field_is_told_with_its_name(body, kind, param, code):
    with pytest.raises(kind) as caught:
        parsed(pieces(body, 4096))
    assert (caught.value.param, caught.value.code) == (param, code)


@pytest.mark.parametrize("content", [AUDIO, b"\0", b"x" * (MAX_FIELD_BYTES + 1)])
def test_a_file_in_another_field_hears_where_it_belongs(content):
    with pytest.raises(
        InvalidRequest, match=r"'audio': expected text, found a file; send the file in the field 'file'"
    ):
        parsed([parts(text_part("model", "whisper"), file_part(content, name="audio"))])


def test_a_text_with_a_file_name_is_a_text():
    assert parsed([parts(file_part(b"whisper", name="model"))])[0] == [FormField("model", "whisper")]


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (file_part(filename="a" * 5000), "more than 4096 bytes; give the file a shorter name"),
        (b"".join(b"x-%d: y\r\n" % number for number in range(20)) + file_part(), "more than 8 headers; leave out all"),
    ],
)
def test_what_is_too_much_in_the_head_of_a_part_is_told(part, words):
    with pytest.raises(InvalidRequest, match=words):
        parsed([parts(part)])


def test_a_field_of_the_greatest_size_is_taken_and_so_is_a_file():
    longest = "x" * MAX_FIELD_BYTES
    fields, content, _ = parsed([form(("prompt", longest), content=b"y" * 10_000)])
    assert (fields[0].text, len(content)) == (longest, 10_000)


def outcome(body):
    try:
        parsed([body])
    except ServiceError as error:
        return error.status
    return 200


def test_every_form_that_has_lost_a_byte_is_read_or_refused():
    body = form(*PAIRS, content=b"abc\r\n--def")
    for at in range(len(body)):
        assert outcome(body[:at] + body[at + 1 :]) in (200, 400, 422), at


@pytest.mark.parametrize(
    "content_type",
    [
        None,
        b"",
        b"application/json",
        b"multipart/mixed; boundary=x",
        b"application/x-www-form-urlencoded",
        b"audio/wav",
    ],
)
def test_a_body_of_another_type_is_refused(content_type):
    with pytest.raises(UnsupportedMediaType):
        boundary_of({} if content_type is None else {b"content-type": content_type})


def test_a_compressed_body_is_refused():
    with pytest.raises(UnsupportedMediaType):
        boundary_of(dict(HEADERS) | {b"content-encoding": b"gzip"})


@pytest.mark.parametrize("boundary", [b"", b"; boundary=", b"; boundary=" + b"x" * 71, b'; boundary="a\r"', b"; a=b"])
def test_a_boundary_that_is_none_is_refused(boundary):
    with pytest.raises(InvalidRequest) as caught:
        boundary_of({b"content-type": b"multipart/form-data" + boundary})
    assert caught.value.code == "invalid_multipart"


@pytest.mark.parametrize(
    ("content_type", "boundary"),
    [
        (b"multipart/form-data; boundary=abc", b"abc"),
        (b'Multipart/Form-Data; charset=utf-8; boundary="a b"', b"a b"),
        (b"multipart/form-data;boundary=----WebKitFormBoundaryX", b"----WebKitFormBoundaryX"),
    ],
)
def test_a_boundary_is_found(content_type, boundary):
    assert boundary_of({b"content-type": content_type}) == boundary
