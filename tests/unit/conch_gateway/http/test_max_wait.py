import pytest

from conch_gateway.http.max_wait import max_wait_s
from conch_kit.errors import InvalidRequest
from testkit.gateway.fakes import gateway, route, snapshot


@pytest.mark.parametrize(
    ("said", "seconds"), [(None, None), (b"0", 0.0), (b"7", 7.0), (b"2.5", 2.5), (b"999999.999", 999999.999)]
)
def test_a_client_says_how_long_it_waits(said: bytes | None, seconds: float | None) -> None:
    assert max_wait_s({} if said is None else {b"x-conch-max-wait": said}) == seconds


@pytest.mark.parametrize("said", [b"-1", b"", b"1e3", b"nan", b"inf", b"1.", b".5", b"1000000", b"1 s", b"\xff" * 200])
def test_what_is_no_number_of_seconds_is_refused_by_the_headers_name(said: bytes) -> None:
    with pytest.raises(InvalidRequest) as refused:
        max_wait_s({b"x-conch-max-wait": said})
    assert refused.value.param == "x-conch-max-wait"
    assert "x-conch-max-wait" in refused.value.message
    assert len(refused.value.message) < 150


async def test_a_request_with_such_a_header_is_refused_and_wakes_no_model() -> None:
    running, wished = gateway(known=snapshot(route(wakes=True, engines_wanted=False), engines=())), []
    running.admission.held = wished.append
    body = {"model": "tiny-chat", "messages": [{"role": "user", "content": "hi"}]}
    answer = await running.client.post("/v1/chat/completions", body, [(b"x-conch-max-wait", b"-1")])
    assert (answer.status, answer.error["param"], answer.error["code"]) == (400, "x-conch-max-wait", "invalid_value")
    assert (wished, running.upstream.posts) == ([], [])
