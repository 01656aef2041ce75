"""Finds out whether an engine really answers: a small request through it, again and again.

Triton calls a model ready whose Python process is dead, so readiness is only what such a request proves; the same check
is the engine's liveness. Each target has a task of its own, so a silent engine holds up nothing else.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from conch_contracts.conditions import Reason
from conch_contracts.names import EngineAddress
from conch_contracts.records import Dialect
from conch_operator.state import Probe, ProbeVerdict

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Target:
    """Where a small request goes, and in which dialect."""

    address: EngineAddress
    model: str
    """The model's name inside Triton."""
    dialect: Dialect
    inputs: tuple[tuple[str, str], ...] = ()
    """What an encoder calls its inputs, where the ModelDeployment says so."""
    output: str | None = None
    """The output that it names."""
    named_in: str | None = None
    """The namespace of whoever named the address; None: Conch runs the engine."""
    prompt_ids: tuple[int, ...] = ()
    """What the decoder of a model of speech is given."""


class NoAnswer(Exception):
    """An engine that did not answer a small request as it should."""

    def __init__(
        self,
        reason: Reason,
        message: str,
        *,
        silent: bool = False,
        dead: bool = False,
        busy: bool = False,
        detail: str = "",
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.silent = silent
        """It took the request and then said nothing in time."""
        self.dead = dead
        """It says itself that it cannot answer any more."""
        self.busy = busy
        """It has too much to do to take one more request."""
        self.detail = detail
        """What only the log is to tell."""


class ProbeClient(Protocol):
    """Sends a small request."""

    async def probe(self, target: Target) -> None:
        """Return when the engine has answered; raises NoAnswer."""


@dataclass(frozen=True, slots=True)
class Cadence:
    """How often engines are probed, and how much silence is forgiven."""

    starting_s: float = 0.1
    serving_s: float = 3.0
    starting_per_s: float = 250.0
    """So many probes of engines that start there are in a second at most: of many each is probed less often."""
    patience: int = 2
    """Silences in a row after which an engine that has answered before counts as dead."""
    reload_s: float = 30.0
    """How long a server stays that could not load its model: it never tries again by itself, so a new one must."""


ON_CLUSTER = Cadence(reload_s=660.0)
"""The kubelet forgets earlier ends of a container that ran for ten minutes, so reloads make no crash loop."""


class Prober:
    """Keeps a verdict on every target."""

    def __init__(
        self,
        client: ProbeClient,
        changed: Callable[[], None],
        cadence: Cadence = Cadence(),
        *,
        is_answering: Callable[[EngineAddress, str], bool] = lambda address, model: False,
    ) -> None:
        """`is_answering` tells whether this model of the engine at this address answers somebody else of late."""
        self.answered: Callable[[Hashable], None] = lambda _: None
        """Hears the key of each engine that has begun to answer, before anybody hears of a change."""
        self._client = client
        self._changed = changed
        self._cadence = cadence
        self._is_answering = is_answering
        self._group = asyncio.TaskGroup()
        self._tasks: dict[Hashable, asyncio.Task[None]] = {}
        self._targets: dict[Hashable, Target] = {}
        self._verdicts: dict[Hashable, Probe] = {}
        self._starting: set[Hashable] = set()

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.set_targets({})
        await self._group.__aexit__(kind, error, trace)

    def set_targets(self, targets: Mapping[Hashable, Target]) -> None:
        """Probe exactly these targets from now on; a key stands for one incarnation of an engine.

        A verdict on where a key pointed before says nothing about where it points now.
        """
        for key in [key for key in self._tasks if targets.get(key) != self._targets[key]]:
            self._tasks.pop(key).cancel()
            self._verdicts.pop(key, None)
            self._starting.discard(key)
        self._targets = {}
        self.add_targets(targets)

    def add_targets(self, targets: Mapping[Hashable, Target]) -> None:
        """Probe these too, until it is told of all again."""
        for key, target in targets.items():
            self._targets.setdefault(key, target)
            if key not in self._tasks:
                self._tasks[key] = self._group.create_task(self._follow(key, target))

    def verdict(self, key: Hashable) -> Probe:
        """Return the last verdict on a target."""
        return self._verdicts.get(key, Probe())

    async def _follow(self, key: Hashable, target: Target) -> None:
        answered, silences, unloaded_at = False, 0, None
        while True:
            try:
                await self._client.probe(target)
                answered, silences, unloaded_at = True, 0, None
                verdict = Probe(ProbeVerdict.READY, Reason.READY)
            except NoAnswer as error:
                in_line = error.silent and self._is_answering(target.address, target.model)
                silences = silences + 1 if error.silent and not in_line else 0
                answered = answered or in_line
                if error.reason is not Reason.ENGINE_LOAD_FAILED:
                    unloaded_at = None
                    verdict = self._judge(error, answered=answered, silences=silences)
                else:
                    unloaded_at = unloaded_at or time.monotonic()
                    verdict = self._unloaded(error, time.monotonic() - unloaded_at)
                if error.detail and verdict != self._verdicts.get(key):
                    log.info("An external engine is not used.", extra={"engine": target.address, "error": error.detail})
            if verdict != self._verdicts.get(key):
                self._verdicts[key] = verdict
                if verdict.verdict is ProbeVerdict.READY:
                    self.answered(key)
                self._changed()
            await asyncio.sleep(self._pause_s(key, verdict))

    def _pause_s(self, key: Hashable, verdict: Probe) -> float:
        if verdict.verdict is ProbeVerdict.READY:
            self._starting.discard(key)
            return self._cadence.serving_s
        self._starting.add(key)
        return max(self._cadence.starting_s, len(self._starting) / self._cadence.starting_per_s)

    def _unloaded(self, error: NoAnswer, since_s: float) -> Probe:
        verdict = ProbeVerdict.DEAD if since_s >= self._cadence.reload_s else ProbeVerdict.FAILING
        return Probe(verdict, error.reason, str(error))

    def _judge(self, error: NoAnswer, *, answered: bool, silences: int) -> Probe:
        if answered and error.busy:
            return Probe(ProbeVerdict.READY, Reason.READY)  # who is full works
        if answered and error.silent:
            if silences < self._cadence.patience:
                return Probe(ProbeVerdict.READY, Reason.READY)  # One late answer under load is no verdict.
            return Probe(ProbeVerdict.DEAD, error.reason, f"{error} It answered before, so it is started again.")
        if error.dead:
            return Probe(ProbeVerdict.DEAD, error.reason, f"{error} It is started again.")
        return Probe(ProbeVerdict.FAILING, error.reason, str(error))
