"""How much JSON may hold before anybody reads it."""

import orjson
import pytest

from conch_gateway.errors.complexity import MAX_CONTAINERS, MAX_TEXTS, MAX_VALUES, check_complexity
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


def test_half_a_text_is_no_way_around_the_limit():
    for begins in (b'{"a":"', b'{"a":"\\', b'{"a":"\\"'):
        with pytest.raises(InvalidRequest):
            parse(begins + b"[" * 2 * MAX_CONTAINERS)
