"""Rounds over many models on an API server that takes its time, with agents that may hang: none waits for another."""

import time
from collections.abc import AsyncIterator, Callable

import pytest

from conch_contracts.conditions import Reason
from conch_operator.timestamps import timestamp
from testkit.kubernetes.slow_world import World, slow_world
from testkit.waiting import eventually

LATENCY_S = 0.1
PATIENCE_S = 0.3


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with slow_world(LATENCY_S, PATIENCE_S) as found:
        yield found


def names(count: int) -> list[str]:
    return [f"m{index}" for index in range(count)]


HANGS: dict[str, Callable[[World], None]] = {
    "its agent": lambda world: world.agents.hung.add("m0"),
    "its status": lambda world: setattr(world.server, "hung", lambda call, name: (call, name) == ("patch", "m0")),
    "its objects": lambda world: setattr(
        world.server, "hung", lambda call, name: (call, name) == ("apply", "m0-engine")
    ),
}


@pytest.mark.parametrize("hang", HANGS.values(), ids=HANGS.keys())
async def test_what_hangs_about_one_model_keeps_no_reason_from_the_others(
    world: World, hang: Callable[[World], None]
) -> None:
    hang(world)
    world.server.add(*names(13))
    world.server.start_pods()
    others = set(names(13)) - {"m0"}
    await world.round_until(
        lambda: {name for name, reason in world.server.reasons().items() if reason == Reason.FOLDER_MISSING} >= others
    )


async def test_nothing_is_said_of_a_generation_before_the_cluster_has_taken_it(world: World) -> None:
    world.server.hung = lambda call, name: (call, name) == ("apply", "m0-engine")
    world.server.add("m0", "m1")
    world.server.start_pods()
    await world.round_until(lambda: world.server.reasons("Applied").get("m1") == Reason.READY)
    assert "m0" not in world.server.reasons("Applied")


async def test_a_list_that_is_older_than_a_status_changes_no_time_in_it(world: World) -> None:
    def changed_at() -> str:
        conditions = world.server.models["m"]["status"]["conditions"]
        return next(str(one["lastTransitionTime"]) for one in conditions if one["type"] == "Ready")

    world.server.add("m")
    await world.round_until(lambda: world.server.reasons() == {"m": Reason.WAITING})
    before = world.server.models["m"]
    world.server.start_pods()
    await world.round_until(lambda: world.server.reasons() == {"m": Reason.FOLDER_MISSING})
    written_at = changed_at()
    await eventually(lambda: timestamp() > written_at, "the next second")
    world.server.models["m"] = before
    await world.round_until(lambda: world.server.reasons() == {"m": Reason.FOLDER_MISSING})
    assert changed_at() == written_at


async def test_an_agent_that_hangs_is_asked_once_at_a_time(world: World) -> None:
    world.agents.hung.add("m0")
    world.server.add("m0", "m1")
    world.server.start_pods()
    await world.round_until(lambda: world.server.reasons().get("m1") == Reason.FOLDER_MISSING)
    await world.one_round.run()
    assert world.agents.asked.count("m0") == 1


async def test_reasons_of_many_models_come_as_soon_as_one(world: World) -> None:
    async def reasons_s(count: int) -> float:
        world.server.models.clear()
        world.server.add(*names(count))
        world.server.start_pods()
        began = time.monotonic()
        await world.round_until(lambda: list(world.server.reasons().values()) == [Reason.FOLDER_MISSING] * count)
        return time.monotonic() - began

    one, many = min([await reasons_s(1) for _ in range(3)]), min([await reasons_s(13) for _ in range(3)])
    assert many <= 3 * one
