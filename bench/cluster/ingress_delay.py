"""What the ingress adds to each event of a stream.

Two equal requests run at once, one through the ingress and one straight to the gateway's Service. The engine decodes
both in the same steps, so equal events leave it together, and the difference of their arrivals is the ingress' time.
"""

import asyncio
import time
from statistics import median

import aiohttp

from bench.cluster.access import ClusterAccess, kubectl, model
from bench.processes import CannotMeasure
from bench.report import Comparison, Goal, Row, Section, Unit

_NAME = "bench-events"
_GOAL_MS = 5.0
_QUESTION = {"role": "user", "content": "Tell me a story."}
_BODY = {"model": _NAME, "messages": [_QUESTION], "stream": True, "temperature": 0, "max_tokens": 60}


async def section(cluster: ClusterAccess, rounds: int) -> Section:
    """Measure so many pairs of streams."""
    added: list[float] = []
    async with model(_NAME, tokens_per_second=10):
        await kubectl("wait", "--for=condition=Ready", f"mdep/{_NAME}", "-n", "default", "--timeout=120s")
        async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {cluster.key}"}) as session:
            for index in range(rounds):
                urls = (cluster.ingress, cluster.direct) if index % 2 else (cluster.direct, cluster.ingress)
                one, other = await asyncio.gather(*(_arrivals(session, url) for url in urls))
                through, past = (one, other) if index % 2 else (other, one)
                added += [(a - b) * 1e3 for a, b in zip(through, past, strict=False)]
    if not added:
        raise CannotMeasure("no event came")
    row = Row("time added to an event, median", Unit.MILLISECONDS, median(added), 0.0, Comparison.ADDED, Goal(_GOAL_MS))
    return Section("The ingress", "nothing", (row,))


async def _arrivals(session: aiohttp.ClientSession, url: str) -> list[float]:
    """Return when each event of one stream came."""
    async with session.post(f"{url}/chat/completions", json=_BODY) as answer:
        return [time.monotonic() async for line in answer.content if line.startswith(b"data: ")]
