"""The benchmark's side of a load client: starts it, gives it commands, reads its answers."""

from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson

from bench.clients.messages import Command, Load, LoadResult, StreamCount, encode
from bench.processes import PYTHON, CannotMeasure, running, tail


class RemoteClient:
    """A load client that runs in a process of its own."""

    def __init__(self, process: Process, name: str, log: Path) -> None:
        self._process = process
        self._name = name
        self._log = log

    @property
    def pid(self) -> int:
        return self._process.pid

    async def load(self, load: Load) -> LoadResult:
        """Run a closed loop and return what it did; a failed request fails the measurement."""
        result = LoadResult(**await self._ask("load", load))
        self._check(result.errors)
        return result

    async def open(self, load: Load) -> StreamCount:
        """Open streams that go on until `close`."""
        return self._counted(await self._ask("open", load), load.streams)

    async def count(self, streams: int) -> StreamCount:
        """Return what the open streams have brought; fails when one of them has ended."""
        return self._counted(await self._ask("count"), streams)

    async def close(self) -> None:
        """Hang up on all open streams."""
        await self._ask("close")

    def _counted(self, raw: dict[str, Any], streams: int) -> StreamCount:
        counted = StreamCount(**raw)
        self._check(counted.errors)
        if counted.open_streams != streams:
            raise CannotMeasure(f"{streams - counted.open_streams} of {streams} streams of {self._name} ended early.")
        return counted

    def _check(self, errors: list[str]) -> None:
        if errors:
            raise CannotMeasure(f"A request of {self._name} failed: {errors[0]}")

    async def _ask(self, command: Command, load: Load | None = None) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(encode(command, load))
        line = await self._process.stdout.readline()
        if not line:
            raise CannotMeasure(f"The load client of {self._name} ended: {tail(self._log)}")
        answer: dict[str, Any] = orjson.loads(line)
        return answer


@asynccontextmanager
async def load_client(module: str, arguments: Sequence[str], name: str, folder: Path) -> AsyncIterator[RemoteClient]:
    """Run a load client of `bench.clients` until the context ends."""
    log = folder / f"{module.rpartition('.')[2]}-{name}.log"
    async with running([PYTHON, "-m", module, *arguments], log, piped=True) as process:
        yield RemoteClient(process, name, log)
