import pytest

from conch_gateway.errors.upstream_errors import as_error
from conch_kit.errors import Unavailable


@pytest.mark.parametrize(
    ("status", "seen", "message"),
    [
        (400, 400, "m"),
        (422, 422, "m"),
        (429, 429, "m"),
        (503, 503, "m"),
        (500, 500, "The server had an error while processing the request."),
        (403, 502, "The service behind the gateway failed."),
        (418, 502, "The service behind the gateway failed."),
    ],
)
def test_a_refusal_inside_becomes_one_outside(status, seen, message):
    error = as_error(status, {}, b'{"error":{"message":"m","type":"t","param":null,"code":"c"}}')
    assert (error.status, error.message) == (seen, message)


USUAL_S = Unavailable("m").retry_after_s


@pytest.mark.parametrize(
    ("said", "seconds"),
    [(b"3", 3.0), (b"soon", USUAL_S), (b"-1", USUAL_S), (b"nan", USUAL_S), (b"", USUAL_S), (None, USUAL_S)],
)
def test_when_to_come_again_is_told_where_it_is_a_number(said, seconds):
    headers = {} if said is None else {b"retry-after": said}
    error = as_error(503, headers, b'{"error":{"message":"m","type":"t","param":null,"code":"c"}}')
    assert error.retry_after_s == seconds


def test_a_refusal_that_is_not_ours_tells_nothing():
    assert as_error(400, {}, b"<html>secret</html>").status == 502
