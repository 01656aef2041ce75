"""Loops that run beside everything else: none ends without a word."""

import asyncio

import pytest

from conch_kit import background_loops
from conch_kit.background_loops import BackgroundLoops


class Counter(BackgroundLoops):
    """Counts, and fails at the first number."""

    def __init__(self) -> None:
        super().__init__(self._count)
        self.numbers: list[int] = []
        self.second = asyncio.Event()

    async def _count(self) -> None:
        while True:
            self.numbers.append(len(self.numbers) + 1)
            if self.numbers == [1]:
                raise ZeroDivisionError("nobody has thought of that")
            self.second.set()
            await asyncio.Event().wait()


async def test_a_loop_that_fails_says_so_at_once_and_begins_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(background_loops, "AGAIN_S", 0.0)
    async with asyncio.timeout(30), Counter() as counter:
        await counter.second.wait()
    assert counter.numbers == [1, 2]
    (record,) = caplog.records
    assert (record.levelname, record.__dict__["loop"]) == ("ERROR", "Counter._count")
    assert "nobody has thought of that" in caplog.text
    assert asyncio.all_tasks() == {asyncio.current_task()}
