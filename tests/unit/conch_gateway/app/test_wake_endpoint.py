"""`POST /conch/v1/models/{name}/wake`."""

from typing import Any

import orjson
import pytest

from conch_contracts.names import ModelId
from conch_contracts.records import Engine
from conch_kit.redis.errors import RegistryUnavailable
from testkit.gateway.fakes import ENGINE, Gateway, gateway, route, snapshot

UNTIL = 1_800_000_000
PATH = "/conch/v1/models/tiny-chat/wake"


def waking(*engines: Engine, **changes: Any) -> tuple[Gateway, list[tuple[ModelId, float]]]:
    """Return a gateway with a model that wakes, and the wishes that were left."""
    wishes: list[tuple[ModelId, float]] = []

    async def wake(model: ModelId, for_s: float) -> float:
        wishes.append((model, for_s))
        return UNTIL

    known = route(**{"wakes": True, "engines_wanted": False, "start_s": 40.0, **changes})
    return gateway(known=snapshot(known, engines=engines), wake=wake), wishes


@pytest.mark.parametrize(("body", "for_s"), [(b"", 600), (b"{}", 600), (b'{"for_s": 60}', 60)])
async def test_a_wish_is_left_and_its_end_told(body: bytes, for_s: int) -> None:
    running, wishes = waking()
    answer = await running.client.post(PATH, body)
    told = orjson.loads(answer.body)
    assert (answer.status, wishes) == (202, [("local/tiny-chat", for_s + 40)]), "it is awake when its engine is there"
    assert 39 < told.pop("ready_in_s") <= 40
    expected = {"id": "tiny-chat", "object": "model.wake", "state": "starting", "awake_until": UNTIL, "reason": None}
    assert told == expected
    assert running.registry.get_sample_value("conch_gateway_wakes_total", {"model": "tiny-chat", "cause": "call"}) == 1


@pytest.mark.parametrize(
    ("engines", "changes", "state", "ready_in_s", "reason", "for_s"),
    [
        ((Engine(grpc=ENGINE),), {}, "ready", 0.0, None, 600),
        ((), {"start_s": None}, "starting", None, None, 600),
        ((), {"start_failed": "The disk is full."}, "failed", None, "The disk is full.", 640),
    ],
)
async def test_what_the_model_does_is_told(
    engines: tuple[Engine, ...],
    changes: dict[str, Any],
    state: str,
    ready_in_s: float | None,
    reason: str | None,
    for_s: float,
) -> None:
    running, wishes = waking(*engines, **changes)
    told = orjson.loads((await running.client.post(PATH, b"")).body)
    assert (told["state"], told["ready_in_s"], told["reason"]) == (state, ready_in_s, reason)
    assert [seconds for _, seconds in wishes] == [for_s]  # one that is awake stays so


@pytest.mark.parametrize(
    ("path", "body", "changes", "status", "param"),
    [
        ("/conch/v1/models/gone/wake", b"", {}, 404, "model"),
        (PATH, b"", {"wakes": False}, 400, "model"),
        (PATH, b'{"for_s": 0}', {}, 400, "for_s"),
        (PATH, b'{"for_s": 86401}', {}, 400, "for_s"),
        (PATH, b'{"for_s": "60"}', {}, 400, "for_s"),
        (PATH, b"[]", {}, 400, None),
        (PATH, b"x" * 20_000, {}, 413, None),
    ],
)
async def test_what_is_wrong_leaves_no_wish(
    path: str, body: bytes, changes: dict[str, Any], status: int, param: str | None
) -> None:
    running, wishes = waking(**changes)
    answer = await running.client.post(path, body)
    assert (answer.status, answer.error["param"], wishes) == (status, param, [])


async def test_a_wish_in_another_form_than_json_is_refused() -> None:
    running, wishes = waking()
    answer = await running.client.post(PATH, b"for_s=60", [(b"content-type", b"application/x-www-form-urlencoded")])
    assert (answer.status, wishes) == (415, [])


async def test_a_name_with_a_slash_is_a_name() -> None:
    running, wishes = waking(served_names=("team/chat",))
    assert (await running.client.post("/conch/v1/models/team/chat/wake", b"")).status == 202
    assert len(wishes) == 1


async def test_without_redis_the_client_is_told_to_come_again() -> None:
    async def wake(model: ModelId, for_s: float) -> float:
        raise RegistryUnavailable("silent")

    running = gateway(known=snapshot(route(wakes=True), engines=()), wake=wake)
    answer = await running.client.post(PATH, b"")
    assert (answer.status, answer.error["code"], answer.headers[b"retry-after"]) == (503, "store_unavailable", b"2")
