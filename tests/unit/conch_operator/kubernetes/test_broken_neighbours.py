"""How soon a model hears its reason beside many others about which everything takes long: as soon as alone."""

import asyncio
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from prometheus_client import CollectorRegistry

from conch_contracts.conditions import Reason
from conch_operator.kubernetes.api.kinds import Object
from conch_operator.kubernetes.leader_loop import LeaderLoop
from conch_operator.main import PATIENCE_S
from conch_operator.metrics import OperatorMetrics
from testkit.kubernetes.slow_world import World, pod, slow_world
from testkit.waiting import eventually

LATENCY_S = 0.02
HANG_S = 3.0
"""How long a call about a broken model takes before it fails; then it is made again, so some always hang."""
LATER_S = 0.5
"""What a crowd may cost each of its models."""
GOOD, UNPULLED = "good", "unpulled-0"
BROKEN = [f"{what}-{index}" for what in ("agent", "objects", "status", "unpulled") for index in range(3)]


async def test_twelve_broken_models_keep_no_reason_from_a_good_one() -> None:
    alone_s, beside_s = await _reason_s(GOOD, [GOOD]), await _reason_s(GOOD, [*BROKEN, GOOD])
    assert beside_s <= alone_s + LATER_S


async def test_a_broken_model_waits_for_no_other_broken_one() -> None:
    alone_s, beside_s = await _reason_s(UNPULLED, [UNPULLED]), await _reason_s(UNPULLED, [*BROKEN, GOOD])
    assert beside_s <= alone_s + LATER_S


async def _reason_s(model: str, names: Iterable[str]) -> float:
    """Return the least of three times from when these models are there to when one of them says what is wrong."""
    return min([await _once(model, names) for _ in range(3)])


async def _once(model: str, names: Iterable[str]) -> float:
    wake = asyncio.Event()
    async with slow_world(LATENCY_S, PATIENCE_S, wake.set) as world:
        _break(world)
        loop = LeaderLoop(world.one_round, OperatorMetrics.on(CollectorRegistry()), 10.0, wake)
        world.server.kubelet = _kubelet(world, loop.changed)
        world.server.add(*names)
        began = time.monotonic()
        running = asyncio.create_task(loop.run())
        reason = Reason.IMAGE_PULL_FAILED if model in BROKEN else Reason.FOLDER_MISSING
        await eventually(lambda: world.server.reasons().get(model) == reason, f"the reason of {model}", timeout_s=20)
        took_s = time.monotonic() - began
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
    return took_s


def _break(world: World) -> None:
    """Let what is asked and written about broken models take long, and fail then."""
    world.server.hang_s = world.agents.hang_s = HANG_S
    world.agents.hung = {name for name in BROKEN if name.startswith("agent")}
    about = {"apply": "objects", "patch": "status", "list": "involvedObject"}
    world.server.hung = lambda call, name: name.startswith(about.get(call, "none"))


def _kubelet(world: World, changed: Callable[[], None]) -> Callable[[Object], None]:
    """Return what starts the pods of Deployments, at once."""

    def start(deployment: Object) -> None:
        model = deployment["metadata"]["name"].removesuffix("-engine")
        made = pod(model)
        template = deployment["spec"]["template"]["metadata"]
        made["metadata"] |= {"labels": template["labels"], "annotations": template["annotations"]}
        if model.startswith("unpulled"):
            state = {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}
            made["status"] = {
                "phase": "Pending",
                "containerStatuses": [{"name": "triton", "image": "none", "state": state}],
            }
        world.server.pods.append(made)
        changed()

    return start
