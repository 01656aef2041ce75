"""Small decisions at the edge: keys, origins, names, silence, balance, refusals."""

from contextlib import suppress

import pytest

from conch_contracts.names import WorkerUrl
from conch_contracts.records import Heartbeat, ModelKind
from conch_gateway.errors.upstream_errors import as_error
from conch_gateway.http.auth import parse_keys
from conch_gateway.http.cors import Cors
from conch_gateway.inference.watchdog import Beat, RequestActivity, WatchdogLimits, decide
from conch_gateway.placement.worker_choice import PASSED_OVER_S, WorkerBalancer, choose
from conch_gateway.requests.model_lookup import canonical_name, resolve
from conch_kit.errors import InvalidRequest, ModelNotFound, Unavailable
from conch_kit.registry.snapshot import Snapshot
from testkit.gateway.fakes import route, snapshot

KEYS = parse_keys("# comment\n\nsk-plain\nann:sk-a\nbob   sk-b\n  carol: sk-c  \n")


@pytest.mark.parametrize(("key", "name"), [("sk-plain", "key-3"), ("sk-a", "ann"), ("sk-b", "bob"), ("sk-c", "carol")])
def test_every_form_of_a_line_names_its_key(key, name):
    assert KEYS.name_of(key.encode()) == name


@pytest.mark.parametrize("key", ["", "sk-", "sk-a ", "sk-ask-a", "sk-a\0", "ann", "# comment"])
def test_what_is_nearly_a_key_is_none(key):
    assert KEYS.name_of(key.encode()) is None


@pytest.mark.parametrize(
    ("loads", "start", "index"), [([1, 0, 0], 0, 1), ([1, 0, 0], 2, 2), ([0, 0, 0], 1, 1), ([2, 1, 3], 2, 1)]
)
def test_the_least_load_is_chosen_and_ties_take_turns(loads, start, index):
    assert choose(loads, start=start) == index


def test_a_lease_is_returned_on_every_exit():
    flight = WorkerBalancer()
    with suppress(ZeroDivisionError), flight.lease("a"):
        assert flight.counts["a"] == 1
        raise ZeroDivisionError
    assert not flight.counts


def test_draining_and_tried_processes_are_passed_over():
    urls = [WorkerUrl(f"http://{name}:1") for name in "abc"]
    pool = [Heartbeat(url=url, sequence=1, draining=url == urls[0]) for url in urls]
    assert WorkerBalancer().pick(pool, without=frozenset({urls[1]})) == urls[2]
    assert WorkerBalancer().pick(pool[:1]) is None


def test_a_process_that_took_no_connection_is_passed_over_for_a_while():
    now = [100.0]
    flight = WorkerBalancer(clock=lambda: now[0])
    dead, other = (WorkerUrl(f"http://{name}:1") for name in "ab")
    pool = [Heartbeat(url=dead, sequence=1), Heartbeat(url=other, sequence=1, in_flight=9)]
    assert flight.pick(pool) == dead
    flight.pass_over(dead)
    assert {flight.pick(pool) for _ in range(4)} == {other}
    assert flight.pick(pool, without=frozenset({other})) == dead
    assert flight.pick(pool[:1]) == dead
    now[0] += PASSED_OVER_S
    assert flight.pick(pool) == dead


CHAT, OTHER = route(served_names=("chat", "alias")), route(model_id="local/b", served_names=("b",))
EMBED = route(model_id="local/e", served_names=("embed",), kind=ModelKind.EMBEDDING)
DEFAULT = route(model_id="local/d", served_names=("d",), default=True)


@pytest.mark.parametrize(
    ("known", "name", "expected"),
    [
        (snapshot(CHAT, OTHER), "alias", CHAT),
        (snapshot(CHAT, EMBED), None, CHAT),
        (snapshot(CHAT, EMBED), "default", CHAT),
        (snapshot(CHAT, DEFAULT), "", DEFAULT),
    ],
)
def test_a_name_becomes_its_route(known, name, expected):
    assert resolve(known, name, kinds=(ModelKind.LLM,)) == expected


@pytest.mark.parametrize(
    ("known", "name", "error"),
    [
        (snapshot(CHAT), "nope", ModelNotFound),
        (snapshot(CHAT), "null", ModelNotFound),
        (snapshot(CHAT, EMBED), "embed", InvalidRequest),
        (snapshot(CHAT, OTHER), None, InvalidRequest),
        (Snapshot.EMPTY, None, Unavailable),
        (Snapshot.EMPTY, "chat", ModelNotFound),
    ],
)
def test_a_name_that_means_nothing_is_an_error(known, name, error):
    with pytest.raises(error):
        resolve(known, name, kinds=(ModelKind.LLM,))


def test_the_first_kind_that_has_a_model_answers_requests_without_a_name():
    every = tuple(ModelKind)
    assert resolve(snapshot(EMBED, CHAT), None, kinds=every) == CHAT
    assert resolve(snapshot(EMBED, CHAT), None, kinds=(ModelKind.RERANK, ModelKind.EMBEDDING)) == EMBED


def test_a_model_of_the_wrong_kind_is_told_which_kinds_would_do():
    with pytest.raises(InvalidRequest, match=r"of kind LLM.*Rerank and Embedding would do"):
        resolve(snapshot(CHAT), "chat", kinds=(ModelKind.RERANK, ModelKind.EMBEDDING))


def test_the_answer_carries_the_name_that_was_asked_for():
    assert [canonical_name(CHAT, name) for name in ("alias", None, "default")] == ["alias", "chat", "chat"]


LIMITS = WatchdogLimits(deadline=200, keep_alive_s=15, write_stall_s=30)


@pytest.mark.parametrize(
    ("progress", "beat"),
    [
        (RequestActivity(sent=90), Beat.NOTHING),
        (RequestActivity(sent=80), Beat.KEEP_ALIVE),
        (RequestActivity(sent=80, sending=80), Beat.NOTHING),
        (RequestActivity(sent=60, sending=70), Beat.CLIENT_STALLED),
        (RequestActivity(sent=60, asked=70, patience_s=30), Beat.WORKER_SILENT),
        (RequestActivity(sent=90, asked=90, patience_s=30), Beat.NOTHING),
    ],
)
def test_a_look_at_the_clock_says_what_to_do(progress, beat):
    assert decide(100, progress, LIMITS) is beat
    assert decide(200, progress, LIMITS) is Beat.OVERDUE


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


@pytest.mark.parametrize(
    ("status", "seen", "message"),
    [
        (400, 400, "m"),
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


def test_a_refusal_that_is_not_ours_tells_nothing():
    assert as_error(400, {}, b"<html>secret</html>").status == 502
