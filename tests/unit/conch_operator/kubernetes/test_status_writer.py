import asyncio
import itertools
from collections.abc import Callable, Coroutine
from typing import Any
from unittest.mock import Mock

import pytest

from conch_contracts.names import ModelId, ServedName
from conch_operator.kubernetes import status_writer
from conch_operator.kubernetes.api.client import ApiError, KubernetesApi, NotLeading
from conch_operator.kubernetes.api.kinds import Kind, Object
from conch_operator.kubernetes.desired_models import Wanted, read_status, read_wanted
from conch_operator.kubernetes.status_writer import (
    SAVED_S,
    TOLD_FOR_S,
    WORDS_PER_S,
    WORDS_S,
    StatusWriter,
    event_body,
    is_turn,
    news,
    status_body,
)
from conch_operator.reconcile.calls_in_flight import AGAIN_S, Background
from conch_operator.reconcile.readiness import Published
from conch_operator.reconcile.status import ModelStatus, describe
from conch_operator.routes.route import make_route
from conch_operator.state import Observed
from testkit.builders.model_deployments import FACTS, desired_model
from testkit.clock import FakeClock

MODEL = ModelId("ns/one")


class Server(KubernetesApi):
    """An API server that keeps statuses, and fails for the objects that it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.statuses: dict[str, Object] = {}
        self.errors: dict[str, Exception] = {}
        self.events: list[Object] = []

    async def patch(self, kind: Kind, namespace: str, name: str, change: Object, subresource: str) -> Object:
        if name in self.errors:
            raise self.errors[name]
        self.statuses[name] = change["status"]
        return {**item(name), "status": change["status"]}

    async def create(self, kind: Kind, made: Object) -> Object:
        self.events.append(made)
        return made


def item(name: str, **more: Any) -> Object:
    meta = {"name": name, "namespace": "ns", "uid": name, "generation": 3, "resourceVersion": "1"}
    spec = {"kind": "LLM", "source": {"path": "tiny"}, "engine": {"cpu": {}}}
    return {"metadata": meta | {"creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": spec, **more}


def wanted(*names: str) -> Wanted:
    return read_wanted([item(name) for name in names])


def conditions(status: Object) -> dict[str, tuple[str, int]]:
    return {one["type"]: (one["status"], one["observedGeneration"]) for one in status["conditions"]}


@pytest.mark.parametrize("status", [404, 409, 500])
async def test_a_status_that_cannot_be_written_holds_up_no_other(status: int) -> None:
    server = Server()
    server.errors["one"] = ApiError(status, "no")
    found = wanted("one", "two")
    statuses = {model: STARTED.model_copy(update={"model_id": model}) for model in found.objects}
    await StatusWriter(server, "operator-1").write(found, statuses)
    assert list(server.statuses) == ["two"]
    assert [event["regarding"]["name"] for event in server.events] == ["two"]


async def test_what_happens_again_and_again_is_told_again_when_its_event_has_gone() -> None:
    server, clock, said = Server(), FakeClock(), item("one")
    writer = StatusWriter(server, "operator-1", clock=clock)

    async def rests_and_comes_back() -> list[str]:
        nonlocal said
        server.events.clear()
        for status in (RESTS, STARTED):
            await writer.write(read_wanted([said]), {MODEL: status})
            clock.advance(WORDS_S)
            await writer.write(read_wanted([said]), {MODEL: status})
            said = item("one", status=server.statuses["one"])
        return [event["reason"] for event in server.events]

    both = ["ScaledToZero", "Ready"]
    assert [await rests_and_comes_back() for _ in range(3)] == [both, [], []]
    clock.advance(TOLD_FOR_S)
    assert await rests_and_comes_back() == both


async def test_the_next_status_does_not_wait_for_an_event_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    server, hangs = Server(), asyncio.Event()

    async def hang(kind: Kind, made: Object) -> Object:
        hangs.set()
        await asyncio.Event().wait()
        return made

    monkeypatch.setattr(server, "create", hang)
    found = wanted("one")
    status = STARTED
    tasks: list[asyncio.Task[None]] = []

    def start(call: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        tasks.append(asyncio.create_task(call))
        return tasks[-1]

    seconds = itertools.count()
    writer = StatusWriter(server, "operator-1", Background(start, patience_s=0.01), lambda: float(next(seconds)))
    async with asyncio.timeout(30):
        while not hangs.is_set():
            await writer.write(found, {MODEL: status})
        while server.statuses["one"]["replicas"] != 7:
            await writer.write(found, {MODEL: status.model_copy(update={"replicas": 7})})
    for task in tasks:
        task.cancel()


async def test_the_event_of_a_status_that_took_long_is_told_though_the_next_one_is_written_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, may_end, ended = Server(), asyncio.Event(), asyncio.Event()
    patch = server.patch

    async def late(kind: Kind, namespace: str, name: str, change: Object, subresource: str) -> Object:
        await may_end.wait()
        return await patch(kind, namespace, name, change, subresource)

    monkeypatch.setattr(server, "patch", late)
    found = wanted("one")
    writer = StatusWriter(server, "operator-1", Background(changed=ended.set, patience_s=0.01))
    first, second = UNPULLED, changed(("Ready", "False", "SourceNotFound"))
    async with asyncio.timeout(30):
        await writer.write(found, {MODEL: first})
        may_end.set()
        await ended.wait()
        await writer.write(found, {MODEL: second})  # it does not know yet how the first one went
        await writer.write(found, {MODEL: second})
        await writer.write(found, {})
    assert [event["reason"] for event in server.events] == ["ImagePullFailed", "SourceNotFound"]


async def test_a_lost_lease_ends_the_round() -> None:
    server = Server()
    server.errors["one"] = NotLeading("lost")
    with pytest.raises(NotLeading):
        await StatusWriter(server, "operator-1").write(wanted("one"), {MODEL: STARTED})


async def test_no_answer_about_one_model_ends_no_round_and_begins_another(monkeypatch: pytest.MonkeyPatch) -> None:
    server, begun = Server(), list[float]()
    monkeypatch.setattr(Background, "changed_in", lambda _, seconds: begun.append(seconds))
    server.errors["one"] = ApiError(0, "no answer")
    found = wanted("one", "two")
    statuses = {model: STARTED.model_copy(update={"model_id": model}) for model in found.objects}
    await StatusWriter(server, "operator-1").write(found, statuses)
    assert list(server.statuses) == ["two"]
    assert begun == [AGAIN_S]


def on_the_way(**more: Any) -> ModelStatus:
    return changed(("Progressing", "True", "RollingOut"), ("Ready", "False", "EngineStarting")).model_copy(update=more)


async def test_what_is_said_on_the_way_is_written_together_and_a_turn_at_once() -> None:
    server, clock, writes = Server(), FakeClock(), list[tuple[float, int]]()
    writer = StatusWriter(server, "operator-1", clock=clock)
    held = item("one")
    began_s = clock()
    ready = changed(("Progressing", "True", "NewEngineAvailable"), ("Ready", "True", "Ready"))
    script = [
        (0.0, on_the_way()),
        (0.3, on_the_way(replicas=1)),
        (0.6, on_the_way(replicas=2)),
        (1.2, on_the_way(replicas=3)),
        (1.4, on_the_way(replicas=4)),
        (1.5, ready.model_copy(update={"replicas": 5})),
        (1.6, ready.model_copy(update={"replicas": 6})),
        (2.7, ready.model_copy(update={"replicas": 6})),
        (9.0, ready.model_copy(update={"replicas": 6})),
    ]
    for at_s, status in script:
        clock.advance(began_s + at_s - clock())
        server.statuses.clear()
        await writer.write(read_wanted([held]), {MODEL: status})
        if server.statuses:
            writes.append((at_s, status.replicas))
            held = held | {"status": server.statuses["one"]}
    assert writes == [(1.2, 3), (1.5, 5), (2.7, 6)]


UNSAID = {"observedGeneration": 0, "conditions": [{"type": "Ready", "status": "Unknown", "reason": "Waiting"}]}
"""What the definition says of a model."""


async def test_what_the_definition_says_counts_as_nothing_said_yet() -> None:
    server, clock = Server(), FakeClock()
    writer = StatusWriter(server, "operator-1", clock=clock)
    found = read_wanted([item("one", status=UNSAID)])
    assert found.statuses() == {}
    await writer.write(found, {MODEL: WAITS})
    assert server.statuses == {}
    clock.advance(WORDS_S)
    await writer.write(found, {MODEL: WAITS})
    assert conditions(server.statuses["one"])["Ready"] == ("Unknown", 3)
    assert server.events == [], "nothing has happened yet"
    await writer.write(found, {MODEL: UNPULLED})
    assert conditions(server.statuses["one"])["Ready"] == ("False", 3)


async def test_words_of_many_models_wait_longer_but_a_turn_of_one_of_them_does_not() -> None:
    server, clock = Server(), FakeClock()
    writer = StatusWriter(server, "operator-1", Background(), clock)
    names = [f"m{index}" for index in range(100)]
    found = read_wanted([item(name, status=status_body(on_the_way(), item(name))) for name in names])
    held = found.statuses()

    async def written(status: Callable[[ModelStatus], ModelStatus]) -> set[str]:
        server.statuses.clear()
        await writer.write(found, {model: status(said) for model, said in held.items()})
        return set(server.statuses)

    def starts(said: ModelStatus) -> ModelStatus:
        return said.model_copy(update={"replicas": 1, "served_names": (ServedName("one"),)})

    def has_turned(said: ModelStatus) -> ModelStatus:
        return UNPULLED.model_copy(update={"model_id": said.model_id}) if said.model_id == "ns/m7" else starts(said)

    assert await written(starts) == set()
    clock.advance(WORDS_S)
    assert await written(starts) == set()
    assert await written(has_turned) == {"m7"}
    clock.advance(100 / WORDS_PER_S - WORDS_S)
    said = await written(starts)
    assert len(said) <= WORDS_PER_S * SAVED_S
    while len(said) < 99:
        clock.advance(WORDS_S)
        more = await written(starts)
        assert 0 < len(more) <= WORDS_PER_S * WORDS_S
        assert not more & said
        said |= more
        held = {model: status for model, status in held.items() if model.rpartition("/")[2] not in more}
    assert said == {*names} - {"m7"}


async def test_a_word_that_waits_has_a_round_begin_when_its_time_has_come() -> None:
    server, clock, begun = Server(), FakeClock(), asyncio.Event()
    writer = StatusWriter(server, "operator-1", Background(changed=begun.set), clock)
    held = item("one", status=status_body(on_the_way(), item("one")))
    await writer.write(read_wanted([held]), {MODEL: on_the_way(replicas=1)})
    clock.advance(WORDS_S - 0.01)
    await writer.write(read_wanted([held]), {MODEL: on_the_way(replicas=1)})
    assert not begun.is_set()
    await asyncio.wait_for(begun.wait(), 30)


async def test_words_are_compared_once_and_those_of_a_model_at_rest_wait_for_no_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, clock = Server(), FakeClock()
    writer = StatusWriter(server, "operator-1", Background(), clock)
    found = read_wanted([item("one", status=status_body(STARTED, item("one")))])
    compared = Mock(wraps=status_body)
    monkeypatch.setattr(status_writer, "status_body", compared)
    monkeypatch.setattr(status_writer, "WORDS_PER_S", 0.01)
    for _ in range(3):
        await writer.write(found, {MODEL: RESTS})
    assert (compared.call_count, server.statuses) == (1, {})
    clock.advance(WORDS_S)
    await writer.write(found, {MODEL: RESTS})
    assert server.statuses.keys() == {"one"}


async def test_a_spec_that_cannot_be_read_is_told_once_in_a_warning() -> None:
    server = Server()
    before = {
        "observedGeneration": 2,
        "replicas": 2,
        "readyReplicas": 2,
        "servedNames": ["one"],
        "tokenizerDigest": "d" * 64,
        "conditions": [
            {
                "type": kind,
                "status": "True",
                "reason": "Ready",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
                "observedGeneration": 2,
            }
            for kind in ("EngineReady", "Ready")
        ],
    }
    spec = {"kind": "LLM", "source": {"git": {}}, "engine": {"cpu": {}}}
    broken = {**item("one"), "spec": spec, "status": before}
    await _write(server, broken)
    status = server.statuses["one"]
    assert (status["replicas"], status["readyReplicas"], status["servedNames"]) == (2, 2, ["one"])
    (ready,) = [one for one in status["conditions"] if one["type"] == "Ready"]
    assert (ready["status"], ready["reason"], ready["observedGeneration"]) == ("True", "SpecInvalid", 3)
    assert "set exactly one of" in ready["message"]
    assert ready["message"].endswith("What serves it goes on as it is.")
    assert conditions(status)["EngineReady"] == ("True", 2)
    assert conditions(status)["Applied"] == ("False", 3)
    assert [(event["reason"], event["type"]) for event in server.events] == [("SpecInvalid", "Warning")]
    server.statuses.clear()
    await _write(server, {**broken, "status": status})
    assert server.statuses == {}


async def _write(server: Server, broken: Object) -> None:
    """Write what is said of an object that cannot be read, whose route is there."""
    wanted = read_wanted([broken])
    (model,) = wanted.desired.unreadable
    known = make_route(desired_model(), FACTS, (ServedName("one"),)).model_copy(update={"tokenizer_digest": "d" * 64})
    statuses = describe(wanted.desired, Observed(routes={model: known}), Published(), wanted.statuses(), "2026-01-02")
    await StatusWriter(server, "operator-1").write(wanted, statuses)


def changed(*conditions: tuple[str, str, str]) -> ModelStatus:
    """Return a status with these conditions: type, status and reason."""
    at = {"lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 3, "message": "It is so."}
    said = [{"type": kind, "status": status, "reason": reason, **at} for kind, status, reason in conditions]
    status = read_status(MODEL, item("one", status={"conditions": said, "observedGeneration": 3}))
    assert status is not None
    return status


DONE = changed(("Ready", "True", "Ready"), ("Stalled", "False", "NewEngineAvailable"))
FAILS = changed(("Ready", "True", "ImagePullFailed"), ("Stalled", "False", "ImagePullFailed"))
WAITS = changed(("Progressing", "True", "RollingOut"), ("Ready", "Unknown", "Waiting"))
STARTS = changed(("Progressing", "True", "RollingOut"), ("Ready", "False", "EngineStarting"))
STARTED = changed(("Progressing", "True", "NewEngineAvailable"), ("Ready", "True", "Ready"))
RESTS = changed(("Progressing", "True", "NewEngineAvailable"), ("Ready", "True", "ScaledToZero"))
LATE = changed(("Progressing", "False", "ProgressDeadlineExceeded"), ("Ready", "False", "EngineStarting"))
UNPULLED = changed(("Progressing", "True", "ImagePullFailed"), ("Ready", "False", "ImagePullFailed"))


@pytest.mark.parametrize(
    ("before", "after", "turns"),
    [
        (None, WAITS, False),
        (None, UNPULLED, True),
        (WAITS, STARTS, False),
        (STARTS, STARTS.model_copy(update={"ready_replicas": 1}), False),
        (STARTS, STARTS.model_copy(update={"served_names": (ServedName("more"),)}), False),
        (STARTS, STARTED, True),
        (STARTED, STARTS, True),
        (STARTED, RESTS, False),
        (STARTS, LATE, True),
        (STARTS, UNPULLED, True),
        (UNPULLED, STARTS, False),
        (STARTED, STARTED.model_copy(update={"served_names": (ServedName("more"),)}), True),
        (STARTED, STARTED.model_copy(update={"observed_generation": 4}), True),
    ],
)
def test_somebody_may_wait_for_a_turn_and_nobody_for_a_word_on_the_way(
    before: ModelStatus | None, after: ModelStatus, turns: bool
) -> None:
    assert is_turn(before, after) == turns


STUCK = changed(("Ready", "True", "ImagePullFailed"), ("Stalled", "True", "ProgressDeadlineExceeded"))


@pytest.mark.parametrize(
    ("before", "after", "events"),
    [
        (None, DONE, [("Normal", "Ready")]),
        (DONE, FAILS, [("Warning", "ImagePullFailed")]),
        (FAILS, FAILS, []),
        (FAILS, STUCK, [("Warning", "ProgressDeadlineExceeded")]),
        (STUCK, DONE, [("Normal", "Ready")]),
    ],
)
def test_a_rollout_that_fails_or_is_stuck_is_a_warning_while_the_model_serves(
    before: ModelStatus | None, after: ModelStatus, events: list[tuple[str, str]]
) -> None:
    made = [event_body(item("one"), condition, "operator-1") for condition in news(before, after)]
    assert [(event["type"], event["reason"]) for event in made] == events
