"""What a request is known by, and what of its head is believed."""

import pytest

from conch_gateway.http.exchange import Exchange


def begun(*headers: tuple[bytes, bytes]) -> Exchange:
    return Exchange.begin({"type": "http", "method": "POST", "path": "/", "headers": headers}, now=0.0)


@pytest.mark.parametrize("asked", [b"job-7", b"a.b:c_d", b"x" * 128])
def test_a_client_may_name_its_request(asked: bytes) -> None:
    exchange = begun((b"x-request-id", asked))
    assert exchange.request_id == asked.decode()
    assert exchange.reply_headers[0] == (b"x-request-id", asked)


@pytest.mark.parametrize("asked", [b"", b"x" * 129, b"a b", b"a\r\nset-cookie: b", b"\xff", b"{}"])
def test_a_name_that_could_do_harm_in_logs_or_heads_is_replaced(asked: bytes) -> None:
    exchange = begun((b"x-request-id", asked))
    assert exchange.request_id.encode() != asked
    assert len(exchange.request_id) == 32
    assert exchange.reply_headers[0] == (b"x-request-id", exchange.request_id.encode())


def test_the_name_in_the_head_stays_and_another_is_taken_from_the_body() -> None:
    named, unnamed = begun((b"x-request-id", b"head")), begun()
    for exchange in (named, unnamed):
        exchange.rename("body")
    assert (named.request_id, unnamed.request_id) == ("head", "body")
    assert named.reply_headers[0] == (b"x-request-id", b"head")
    assert unnamed.reply_headers[0] == (b"x-request-id", b"body")


TRACE = b"00-" + b"a" * 32 + b"-" + b"b" * 16 + b"-01"


@pytest.mark.parametrize(
    ("given", "taken"),
    [(TRACE, TRACE), (TRACE + b"-more", None), (TRACE.upper(), None), (TRACE + b"\r\nx: y", None), (b"", None)],
)
def test_only_a_well_formed_trace_is_gone_on_with(given: bytes, taken: bytes | None) -> None:
    assert begun((b"traceparent", given)).traceparent == taken
