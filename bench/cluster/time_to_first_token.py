"""From `kubectl apply` to the first token through the ingress, with the steps on the way."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import aiohttp

from bench.cluster.access import ClusterAccess, label, model, watch
from bench.report import Comparison, Goal, Row, Section, Unit

_NAME = "bench-first-token"
_GOAL_S = 15.0
_PAUSE_S = 0.05
_QUESTION = {"model": _NAME, "messages": [{"role": "user", "content": "Hello!"}], "stream": True, "max_tokens": 1}


@dataclass(frozen=True, slots=True)
class FirstTokenTimes:
    """Seconds from the apply to each step until a model's first token."""

    pod: float
    engine: float
    route: float
    token: float


async def section(cluster: ClusterAccess, rounds: int) -> Section:
    """Apply a model so many times, one after another."""
    seen = [await _apply_and_ask(cluster) for _ in range(rounds)]
    parts: list[tuple[str, Callable[[FirstTokenTimes], float]]] = [
        ("its pod is there", lambda one: one.pod),
        ("its engine has answered", lambda one: one.engine),
        ("its route is published", lambda one: one.route),
    ]
    rows = [Row(f"apply until {name}", Unit.SECONDS, median(map(part, seen))) for name, part in parts]
    last = median(one.token for one in seen)
    goal = Goal(_GOAL_S)
    rows.append(Row("apply until the first token", Unit.SECONDS, last, 0.0, Comparison.ADDED, goal))
    return Section("A model on a cluster", "nothing", tuple(rows))


async def _apply_and_ask(cluster: ClusterAccess) -> FirstTokenTimes:
    began = time.monotonic()
    async with model(_NAME), asyncio.TaskGroup() as tasks:
        pod = tasks.create_task(_until(began, ("pods", "-l", label(_NAME)), lambda _: True))
        engine = tasks.create_task(_until(began, ("mdep", _NAME), lambda item: _holds(item, "EngineReady")))
        route = tasks.create_task(_until(began, ("mdep", _NAME), lambda item: _holds(item, "RoutePublished")))
        token = tasks.create_task(_first_token(began, cluster))
        return FirstTokenTimes(await pod, await engine, await route, await token)


async def _until(began: float, words: tuple[str, ...], condition: Callable[[dict[str, Any]], bool]) -> float:
    async for item in watch(*words):
        if condition(item):
            break
    return time.monotonic() - began


def _holds(item: dict[str, Any], kind: str) -> bool:
    conditions = item.get("status", {}).get("conditions", ())
    return any(condition["type"] == kind and condition["status"] == "True" for condition in conditions)


async def _first_token(began: float, cluster: ClusterAccess) -> float:
    headers = {"Authorization": f"Bearer {cluster.key}"}
    async with aiohttp.ClientSession(headers=headers) as session:
        while True:
            async with session.post(f"{cluster.ingress}/chat/completions", json=_QUESTION) as answer:
                if answer.status == 200:
                    await answer.content.readline()
                    return time.monotonic() - began
            await asyncio.sleep(_PAUSE_S)
