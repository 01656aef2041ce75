"""How much JSON may hold before anybody reads it."""

import time
from collections.abc import Callable

import orjson
import pytest

from conch_gateway.errors.complexity import LONG, MAX_CONTAINERS, MAX_TEXTS, MAX_VALUES, check_complexity
from conch_gateway.errors.nesting import MAX_DEPTH
from conch_gateway.http.body import parse
from conch_kit.errors import InvalidRequest


def listed(item, count):
    """Return a body of a list with so many of these items."""
    return b'{"a":[' + b",".join([item] * count) + b"]}"


def named(count):
    """Return a body of an object with so many names."""
    return b'{"a":{' + b",".join(b'"%d":1' % number for number in range(count)) + b"}}"


@pytest.mark.parametrize(
    ("within", "beyond", "limit"),
    [
        (listed(b"[]", MAX_CONTAINERS - 2), listed(b"[]", MAX_CONTAINERS - 1), MAX_CONTAINERS),
        (listed(b"{}", MAX_CONTAINERS - 2), listed(b"{}", MAX_CONTAINERS - 1), MAX_CONTAINERS),
        (named(MAX_TEXTS - 1), named(MAX_TEXTS), MAX_TEXTS),
        (listed(b'""', MAX_TEXTS - 1), listed(b'""', MAX_TEXTS), MAX_TEXTS),
        (listed(b"1", MAX_VALUES + 1), listed(b"1", MAX_VALUES + 2), MAX_VALUES),
    ],
    ids=["lists", "objects", "names", "texts", "numbers"],
)
def test_a_body_that_a_parser_would_be_long_at_is_refused_before_it(within, beyond, limit):
    assert parse(within)
    with pytest.raises(InvalidRequest, match=str(limit)) as caught:
        parse(beyond)
    assert (caught.value.param, caught.value.code) == (None, "too_complex")
    with pytest.raises(InvalidRequest, match=r"'x\.y' holds too much") as caught:
        check_complexity(beyond, "x.y")
    assert caught.value.param == "x.y"


@pytest.mark.parametrize("text", ['{"k": [1, 2]}, ', '\\"[{,', "\\\\[{,\n", '""[{,'])
def test_what_stands_in_a_text_does_not_count(text):
    texts = [text * 400_000, "\\", '\\"', "["]
    assert parse(orjson.dumps({"a": texts})) == {"a": texts}


def fastest(work: Callable[[], object]) -> float:
    """Return the processor time of the fastest of several tries, in seconds."""
    took = []
    for _ in range(7):
        began = time.thread_time()
        work()
        took.append(time.thread_time() - began)
    return min(took)


def test_a_picture_in_a_body_costs_little_more_than_to_look_at_it_once():
    body = orjson.dumps({"messages": [{"content": [{"url": "data:image/png;base64," + "iVBORw0K" * 1_000_000}]}]})
    assert fastest(lambda: parse(body)) < 3 * fastest(lambda: body.translate(None, b"[{"))


@pytest.mark.parametrize("values", [b"1", b"1," * 2_000 + b"1"], ids=["few", "many"])
@pytest.mark.parametrize("text", [b"a" * LONG, b"a,:[{" * LONG], ids=["of a picture", "of words"])
def test_bounds_hold_beside_a_long_text(text, values):
    def body(more):
        return b'{"text":"%b","a":[%b],"b":%b}' % (text, values, more)

    assert parse(body(b"1e9"))["b"] == 1e9
    for more, said in ((b"1e999", "'b'"), (b"[" * MAX_DEPTH + b"]" * MAX_DEPTH, "'b'"), (b"[[]," * 50_000, "too much")):
        with pytest.raises(InvalidRequest, match=said):
            parse(body(more))


def test_half_a_text_is_no_way_around_the_limit():
    for begins in (b'{"a":"', b'{"a":"\\', b'{"a":"\\"'):
        with pytest.raises(InvalidRequest):
            parse(begins + b"[" * 2 * MAX_CONTAINERS)
