"""Forms at random: each is read the same however it arrives, or refused as a client's fault."""

from hypothesis import example, given
from hypothesis import strategies as st

from conch_gateway.http.form_parser import FormParser
from conch_kit.errors import ServiceError
from testkit.http.forms import BOUNDARY, form

BITS = st.sampled_from(
    [
        b"\r\n",
        b"--",
        b"-",
        b"\r",
        b"\n",
        BOUNDARY.encode(),
        b"\r\n--" + BOUNDARY.encode(),
        b"content-disposition: form-data; name=file; filename=a",
        b"content-disposition: form-data; name=model",
        b'content-disposition: form-data; name="\\"; filename*=x',
        b"\0",
        b"\xff",
        b": ",
        b"x" * 70,
    ]
)
CHUNKS = st.lists(st.integers(1, 200), min_size=1, max_size=30)


def read(body, sizes):
    """Return what a form holds, or the code of its error."""
    kept = []
    parser = FormParser(BOUNDARY.encode(), "file", kept.append, max_file_bytes=500)
    start = 0
    try:
        while start < len(body):
            size = sizes[start % len(sizes)]
            parser.feed(body[start : start + size])
            start += size
        parser.finish()
    except ServiceError as error:
        return error.status, error.code
    return parser.fields, b"".join(kept), parser.has_file


@example([b"\r\n", b"\0", b"\r\n--" + BOUNDARY.encode(), b"--"], [1])
@given(st.lists(BITS, max_size=40), CHUNKS)
def test_bytes_at_random_are_the_same_in_any_pieces(bits, sizes):
    body = b"".join(bits)
    whole = read(body, [len(body) or 1])
    assert read(body, sizes) == whole
    assert not isinstance(whole[0], int) or whole[0] in (400, 413, 422)


@given(st.binary(max_size=400), st.text(max_size=50), CHUNKS)
def test_whatever_a_file_and_a_text_hold_comes_out(content, text, sizes):
    if BOUNDARY.encode() in content or BOUNDARY in text or "\0" in text:
        return
    fields, found, _ = read(form(("prompt", text), content=content), sizes)
    assert (fields[0].text, found) == (text, content)


@given(st.data(), CHUNKS)
def test_a_form_that_is_damaged_is_the_same_in_any_pieces(data, sizes):
    body = bytearray(form(("model", "ear"), content=b"abc"))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(body) - 1))
        body[at] = data.draw(st.integers(0, 255))
    assert read(bytes(body), sizes) == read(bytes(body), [len(body)])
