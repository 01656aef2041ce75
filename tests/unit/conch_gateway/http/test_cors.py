import pytest

from conch_gateway.http.cors import MAX_REQUESTED_BYTES, Cors

ASK = {b"origin": b"https://a.example", b"access-control-request-method": b"POST"}


@pytest.mark.parametrize(
    ("origins", "allowed"), [((), None), (("*",), b"*"), (("https://a.example",), b"https://a.example"), (("b",), None)]
)
def test_only_configured_origins_are_allowed(origins, allowed):
    cors = Cors.of(origins)
    assert dict(cors.headers(ASK)).get(b"access-control-allow-origin") == allowed
    assert bool(cors.preflight(ASK)) == (allowed is not None)


@pytest.mark.parametrize("origin", [{}, {b"origin": b"https://a.example"}, {b"origin": b"https://b.example"}])
def test_caches_keep_the_answers_to_different_origins_apart(origin):
    assert dict(Cors.of(["https://a.example"]).headers(origin))[b"vary"] == b"origin"
    assert Cors.of([]).headers(origin) == []


def test_headers_that_a_page_asks_for_are_repeated_within_a_bound():
    request = {b"origin": b"https://a", b"access-control-request-method": b"POST"}
    for length, repeated in ((MAX_REQUESTED_BYTES, True), (MAX_REQUESTED_BYTES + 1, False)):
        asked = b"x" * length
        answer = dict(Cors.of(["*"]).preflight({**request, b"access-control-request-headers": asked}))
        assert (answer[b"access-control-allow-headers"] == asked) is repeated
