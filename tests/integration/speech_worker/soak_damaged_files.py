"""Run by `make soak` only, because it takes minutes: 10,080 damaged files through gateway, worker and engine.

No answer is a 5xx, and neither the gateway nor the worker nor the process that forks decoders grows.
"""

import asyncio
import random
from collections import Counter

import psutil
import pytest
import pytest_asyncio

from testkit.gateway.speech import TRANSCRIPTIONS
from testkit.http.forms import BOUNDARY, form
from testkit.models.damaged_sound import WAYS, damaged, sound_files
from testkit.models.tone_speech import spoken
from testkit.waiting import eventually

from .conftest import Way

pytestmark = pytest.mark.asyncio(loop_scope="module")

FILES = sound_files(spoken([3, 1, 4, 1, 5, 9, 2, 6]))
EACH, TOGETHER, WARM_UP = 144, 4, 8
"""Files of each kind that are damaged in each way, how many are sent at a time, and how many go before them."""
MOST_GROWTH_MIB = 8
TYPE = f"content-type: multipart/form-data; boundary={BOUNDARY}"


class Memory:
    """What the processes of a way hold, compared with what they held before."""

    def __init__(self, way: Way) -> None:
        self._processes = {
            "gateway": psutil.Process(way.gateway.process.pid),
            "worker": psutil.Process(way.worker.pid),
            "fork server": way.worker.fork_server(),
        }
        self._before = self._now()

    def growth(self) -> dict[str, float]:
        """Return by how many MiB each has grown."""
        return {name: round(now - self._before[name], 1) for name, now in self._now().items()}

    def _now(self) -> dict[str, float]:
        return {name: process.memory_info().rss / 2**20 for name, process in self._processes.items()}


async def statuses(way: Way, kind: str, each: int) -> Counter[int]:
    """Send so many files of a kind, damaged in each way, and return how many answers have each status."""
    room, found, chance = asyncio.Semaphore(TOGETHER), Counter[int](), random.Random(kind)

    async def ask(file: bytes) -> None:
        async with room:
            status, _, _ = await way.gateway.post(TRANSCRIPTIONS, form(("model", "plain"), content=file), TYPE)
        found[status] += 1

    async with asyncio.TaskGroup() as group:
        for _ in range(each):
            for damage in WAYS:
                group.create_task(ask(damaged(FILES[kind], damage, chance)))
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def memory(way: Way) -> Memory:
    for kind in FILES:
        await statuses(way, kind, WARM_UP)
    return Memory(way)


@pytest.mark.parametrize("kind", FILES)
async def test_damaged_files_are_heard_or_refused_and_nothing_grows(way: Way, memory: Memory, kind: str) -> None:
    found = await statuses(way, kind, EACH)
    growth = memory.growth()
    print(f"{kind}: {dict(sorted(found.items()))}, MiB more: {growth}")
    assert set(found) <= {200, 400}
    assert found.total() == EACH * len(WAYS)
    assert max(growth.values()) < MOST_GROWTH_MIB, growth
    await eventually(lambda: not way.worker.decoding_children() and not way.files(), "all decoders to be gone")
