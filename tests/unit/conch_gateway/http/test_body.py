"""What a body may be before anybody looks at its meaning."""

import time
from contextlib import nullcontext

import orjson
import pytest

from conch_gateway.errors.nesting import MAX_DEPTH
from conch_gateway.http.body import MAX_KEY_CHARS, MAX_KEYS, MAX_PASTED_BYTES, check_media_type, parse, read
from conch_kit.errors import BodyTooLarge, InvalidRequest, UnsupportedMediaType
from conch_kit.http.asgi import ClientGone


def nested(depth: int) -> bytes:
    return b'{"a":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b'"x"',
        b"1",
        b'{"a":1',
        b'{"a":1} x',
        b'{"a":1,}',
        b"{'a':1}",
        b'{"a":1 /* c */}',
        b'{"a":"\xff"}',
        b"\xef\xbb\xbf",
        b'{"a":1\xa0}',
        '{"a":1\u200b}'.encode(),
        '{"a":1\u00a02}'.encode(),
        '{"a":"\u00a0'.encode() + b'\\"' * 100_000,
        b'{"a":1,"a":2}',
        b'{"b":{"a":1,"a":2}}',
        b'{"a":NaN}',
        b'{"a":-Infinity}',
        b'{"a":"\\ud800"}',
        b'{"a":' + b"1" * 5000 + b"}",
        b"[" * 100_000,
        nested(MAX_DEPTH + 1),
        nested(990),
        b'{"a":[1,{"b":0},{"b":' + nested(MAX_DEPTH - 2) + b'}],"c":[1,2]}',
        b"{" + b",".join(b'"k%d":1' % n for n in range(100_000)) + b"}",
        b'{"' + b"k" * 1_000_000 + b'":1,"' + b"k" * 1_000_000 + b'":1}',
        '{"a":1}'.encode("utf-16"),
    ],
)
def test_a_body_that_two_parsers_could_read_differently_is_refused_without_echo(body):
    with pytest.raises(InvalidRequest) as caught:
        parse(body)
    assert len(caught.value.message) < 250


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        nested(MAX_DEPTH),
        b'{"a":[1,{"b":0},{"b":' + nested(MAX_DEPTH - 3) + b'}],"c":[1,2]}',
        b'{"a":"\\u0000\\u202e"}',
        b'{"a":18446744073709551616}',
        b'{"a":1e308,"b":"1e999"}',
        b'{"a":1e-999,"b":0e999,"c":' + b"1" * 300 + b"}",
        '{"a":"é"}'.encode(),
    ],
)
def test_an_unusual_but_plain_body_is_read(body):
    assert isinstance(parse(body), dict)


@pytest.mark.parametrize("space", ["\u00a0", "\u202f", "\u2003", "\u3000", "\ufeff", "\u00a0 \u3000"])
def test_the_spaces_of_a_web_page_between_tokens_are_spaces_and_in_texts_they_stay(space):
    text = f'{space} {{{space}"a\\"{space}":{space}[1{space},"{space}{{"]{space}}}{space}'
    assert parse(text.encode()) == {f'a"{space}': [1, space + "{"]}


@pytest.mark.parametrize(("more", "read"), [(0, True), (1, False)])
def test_a_long_body_was_not_copied_from_a_page(more, read):
    body = b'{"a":\xc2\xa0"%b"}' % (b"x" * (MAX_PASTED_BYTES + more - 10))
    assert len(body) == MAX_PASTED_BYTES + more
    with nullcontext() if read else pytest.raises(InvalidRequest, match="not valid JSON"):
        parse(body)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b'{"a":1e999}', "a"),
        (b'{"a":[{"b":-1E+400}]}', "a.0.b"),
        (b'{"a":{"b":[0,1.5e0309]}}', "a.b.1"),
        (b'{"a":"E","b":2E999}', "b"),
        (b'{"a":9e+0000000000400}', "a"),
        (b'{"a":"1e5","b":[0.5e0000309,1]}', "b.0"),
        (b'{"a":' + b"1" * 400 + b".5}", "a"),
        (b'{"a":' + b"1" * 250 + b"e99}", "a"),
    ],
)
def test_a_number_beyond_all_floats_is_refused_by_its_path(body, param):
    with pytest.raises(InvalidRequest, match="finite") as caught:
        parse(body)
    assert (caught.value.param, caught.value.code) == (param, "invalid_value")


def test_a_syntax_error_is_named_with_its_position():
    with pytest.raises(InvalidRequest, match="line 1 column"):
        parse(b'{"a":1 "b":2}')


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {b"content-type": b"application/json"},
        {b"content-type": b"Application/JSON; charset=UTF-8"},
        {b"content-type": b"application/json", b"content-encoding": b"identity"},
    ],
)
def test_json_in_utf8_is_accepted(headers):
    check_media_type(headers)


@pytest.mark.parametrize(
    "headers",
    [
        {b"content-type": b"text/plain"},
        {b"content-type": b"application/json; charset=utf-16"},
        {b"content-type": b"multipart/form-data; boundary=x"},
        {b"content-encoding": b"gzip"},
        {b"content-encoding": b"zstd", b"content-type": b"application/json"},
    ],
)
def test_other_media_types_and_compressed_bodies_are_refused(headers):
    with pytest.raises(UnsupportedMediaType):
        check_media_type(headers)


def arriving(*messages):
    pending = list(messages)

    async def receive():
        return pending.pop(0)

    return receive


def part(body, *, more=True):
    return {"type": "http.request", "body": body, "more_body": more}


async def test_a_body_in_pieces_is_joined():
    assert await read(arriving(part(b"ab"), part(b"c", more=False)), {}, limit=3) == b"abc"


@pytest.mark.parametrize(
    ("longest", "most", "fits"),
    [(MAX_KEY_CHARS, MAX_KEYS, True), (MAX_KEY_CHARS + 1, 1, False), (1, MAX_KEYS + 1, False)],
)
def test_an_object_has_so_many_keys_of_so_many_characters(longest, most, fits):
    body = orjson.dumps({"k" * longest: 1, **{str(number): 1 for number in range(most - 1)}})
    if fits:
        assert len(parse(body)) == most
    else:
        with pytest.raises(InvalidRequest, match="keys"):
            parse(body)


async def test_a_body_above_the_limit_is_refused_before_it_is_read_when_its_length_is_known():
    with pytest.raises(BodyTooLarge):
        await read(arriving(), {b"content-length": b"4"}, limit=3)
    with pytest.raises(BodyTooLarge):
        await read(arriving(), {b"content-length": b"9" * 5000}, limit=3)  # more digits than Python reads


async def test_a_body_without_a_length_is_refused_at_the_limit():
    with pytest.raises(BodyTooLarge):
        await read(arriving(part(b"ab"), part(b"cd")), {}, limit=3)


async def test_a_client_that_leaves_before_the_end_is_noticed():
    with pytest.raises(ClientGone):
        await read(arriving(part(b"ab"), {"type": "http.disconnect"}), {}, limit=3)


def test_a_text_that_looks_like_many_numbers_is_searched_as_fast_as_any_other():
    def took_s(text):
        began = time.thread_time()
        parse(b'{"a":"' + text + b'"}')
        return time.thread_time() - began

    plain, alike = b"xy" * 4_000_000, b"1e" * 4_000_000
    assert min(took_s(alike) for _ in range(5)) < 2.5 * min(took_s(plain) for _ in range(5))


def test_a_million_token_ids_are_parsed():
    assert len(parse(b'{"prompt":[' + b"1," * 1_000_000 + b"1]}")["prompt"]) == 1_000_001
