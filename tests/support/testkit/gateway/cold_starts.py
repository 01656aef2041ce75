"""Requests to a model that has no engine, and starts one for them, through a gateway on fakes."""

import asyncio
from typing import Any

from conch_contracts.records import Engine, Route, RoutingPolicy
from conch_kit.registry.snapshot import Snapshot
from testkit.gateway.fakes import ENGINE, Gateway, route, snapshot
from testkit.waiting import eventually

PATH = "/v1/chat/completions"
CHAT = {"model": "tiny-chat", "messages": [{"role": "user", "content": "hi"}]}
STREAM = {**CHAT, "stream": True}
FRAMES = (b'data: {"a":1}\n\n', b"data: [DONE]\n\n")
_SHORT = RoutingPolicy(queue_wait_s=0.001)


def sleeping(**changes: Any) -> Route:
    """Return a route of a model at zero that wakes; its queue alone would not wait."""
    return route(**{"wakes": True, "engines_wanted": False, "start_s": 40.0, "routing": _SHORT, **changes})


def at_zero(known: Route | None = None) -> Snapshot:
    """Return a snapshot of a model without an engine."""
    return snapshot(known or sleeping(), engines=())


async def held(running: Gateway, count: int, body: object = CHAT) -> list[asyncio.Task[Any]]:
    """Send so many requests, one after the other, and return when all are held."""
    tasks: list[asyncio.Task[Any]] = []
    for _ in range(count):
        tasks.append(asyncio.create_task(running.client.post(PATH, body)))
        await eventually(lambda: running.admission.waiting()[route().model_id] == len(tasks), "one more that waits")
    return tasks


def ends(running: Gateway) -> dict[str, float]:
    """Return how many holds have ended in which way."""
    family = next(one for one in running.registry.collect() if one.name == "conch_gateway_holds")
    return {sample.labels["outcome"]: sample.value for sample in family.samples if sample.value}


def awake(running: Gateway, known: Route | None = None, *, slots: int = 8) -> None:
    """Let the engine come."""
    running.learn(snapshot(known or sleeping(), engines=(Engine(grpc=ENGINE, slots=slots),)))
