"""Writes the routes of each round, and between two rounds those of engines that begin to answer.

Who is held for an engine is not to wait for a round of all models. What a round has decided stands: between rounds only
engines join it of which nothing is left to decide (`first_answers`), and the next round decides about them too.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from conch_contracts.names import Digest, ModelId
from conch_kit.redis.errors import RegistryError, RegistryUnavailable
from conch_operator.reconcile.first_answers import awaited_engines, first_answers
from conch_operator.reconcile.moment import Moment
from conch_operator.reconcile.plan import Plan, UnknownRoutes
from conch_operator.state import (
    ClusterEngine,
    EngineName,
    EnginePhase,
    Observed,
    Probe,
    ProbeVerdict,
    RoutedModel,
)

Routes = Mapping[ModelId, RoutedModel]


@dataclass(frozen=True, slots=True)
class WrittenRoutes:
    """A list that the registry has taken."""

    routes: Routes
    revision: int


@dataclass(frozen=True, slots=True)
class _Round:
    """What a round has decided."""

    steps: Plan
    specs: Mapping[ModelId, str]
    """The spec hash that the engines of each model should have."""
    awaited: Sequence[ClusterEngine]
    """Engines, as the round saw them, of models whose route has none."""

    @classmethod
    def of(cls, steps: Plan, observed: Observed) -> "_Round":
        return cls(steps, observed.specs, awaited_engines(steps, observed))


class RouteWriter:
    """The one who writes routes."""

    def __init__(
        self,
        publish: Callable[[Routes, UnknownRoutes], Awaitable[int]],
        verdict: Callable[[ClusterEngine], Probe],
        tokenizer_of: Callable[[EngineName], Digest | None],
    ) -> None:
        """`publish` replaces all routes and returns the revision: see `RegistryWriter.publish`.

        The others tell what is known of an engine now.
        """
        self._publish = publish
        self._verdict = verdict
        self._tokenizer_of = tokenizer_of
        self._writing = asyncio.Lock()
        """A list that was made later is written later."""
        self._last: _Round | None = None
        """By what the last list was made that the registry has taken; None while it takes none."""
        self._joined: Routes = {}
        """The routes of the last list in which engines have joined what its plan says."""
        self._started: dict[EngineName, ClusterEngine] = {}
        """Engines that started lately: a round may have looked before that."""
        self._started_before: frozenset[EngineName] = frozenset()
        """Those of them that had when the last round began."""
        self._news = False
        """Whether an engine may answer that did not when it was last looked."""
        self._moment = Moment()
        """What is left of the time that the round which runs may wait for first answers."""

    def note_start(self, engine: ClusterEngine) -> None:
        """Note that an engine runs that did not when a round looked last."""
        self._started[engine.name] = engine

    @property
    def awaits_answer(self) -> bool:
        """Whether an engine that started lately is about to answer, or its route to be written."""
        return self._news or self._writing.locked() or any(map(self._is_asked, self._started.values()))

    def _is_asked(self, engine: ClusterEngine) -> bool:
        """Return whether an engine may serve, and is being asked whether it answers or for which tokenizer."""
        verdict = self._verdict(engine).verdict
        known = self._tokenizer_of(engine.name) is not None
        return verdict is ProbeVerdict.PENDING or (verdict is ProbeVerdict.READY and not known)

    async def let_answers_go_first(self) -> None:
        """Wait for first answers that are under way, for a moment in all of a round: it takes them along later."""
        await self._moment.wait_while(lambda: self.awaits_answer)

    def begin_round(self) -> None:
        """Forget the engines that had started when the round before this one began: this one has seen them."""
        self._moment = Moment()
        self._started = {name: one for name, one in self._started.items() if name not in self._started_before}
        self._started_before = frozenset(self._started)

    def with_started(self, engines: Sequence[ClusterEngine]) -> list[ClusterEngine]:
        """Return these engines as they are now that some have started; what a round knows of others stands."""
        found = {engine.name: engine for engine in engines}
        for name, engine in self._started.items():
            if name not in found or found[name].phase is EnginePhase.STARTING:
                found[name] = engine
        return list(found.values())

    async def write(self, steps: Plan, observed: Observed) -> WrittenRoutes:
        """Write the routes of a round; raises RegistryError and RegistryUnavailable."""
        async with self._writing:
            self._last = None
            decided = _Round.of(steps, observed)
            joined = self._first_answers(decided)
            routes = {**steps.routes, **joined}
            revision = await self._publish(routes, steps.unknown)
            self._last, self._joined = decided, joined
            return WrittenRoutes(routes, revision)

    async def stop(self) -> None:
        """Write nothing between rounds, until one has written again."""
        async with self._writing:
            self._last = None

    def note_answer(self) -> None:
        """Note that there may be an engine for `write_first_answers`."""
        self._news = True

    async def write_first_answers(self) -> None:
        """Write the last list again, with engines that answer since, until there are no more.

        Where that fails it is left to the next round. It rests for as long as each time has taken.
        """
        while self._news:
            self._news = False
            began_s = time.monotonic()
            if await self._write_again():
                await asyncio.sleep(time.monotonic() - began_s)

    async def _write_again(self) -> bool:
        """Return whether there was something to write."""
        async with self._writing:
            if self._last is None:
                return False
            steps = self._last.steps
            joined = self._first_answers(self._last)
            if joined.items() <= self._joined.items():
                return False  # the list says so already; who has gone is for the next round
            with suppress(RegistryUnavailable, RegistryError):
                await self._publish({**steps.routes, **joined}, steps.unknown)
                self._joined = joined
            return True

    def _first_answers(self, decided: _Round) -> Routes:
        engines = self.with_started(decided.awaited)
        return first_answers(decided.steps, decided.specs, engines, self._verdict, self._tokenizer_of)
