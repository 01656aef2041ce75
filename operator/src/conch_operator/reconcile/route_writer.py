"""Writes the routes of each round, and between two rounds those of engines that begin to answer.

Who is held for an engine is not to wait for a round of all models. What a round has decided stands: between rounds only
engines join it of which nothing is left to decide (`first_answers`), and the next round decides about them too.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from conch_contracts.names import Digest, ModelId
from conch_kit.redis.errors import RegistryError, RegistryUnavailable
from conch_operator.reconcile.first_answers import first_answers
from conch_operator.reconcile.plan import Plan
from conch_operator.state import ClusterEngine, EngineName, EnginePhase, Observed, ObservedEngine, Probe, RoutedModel

Routes = Mapping[ModelId, RoutedModel]


@dataclass(frozen=True, slots=True)
class WrittenRoutes:
    """A list that the registry has taken."""

    routes: Routes
    revision: int


class RouteWriter:
    """The one who writes routes."""

    def __init__(
        self,
        publish: Callable[[Routes], Awaitable[int]],
        verdict: Callable[[ClusterEngine], Probe],
        tokenizer_of: Callable[[EngineName], Digest | None],
    ) -> None:
        """`publish` replaces all routes and returns the revision; the others tell what is known of an engine now."""
        self._publish = publish
        self._verdict = verdict
        self._tokenizer_of = tokenizer_of
        self._writing = asyncio.Lock()
        """A list that was made later is written later."""
        self._last: tuple[Plan, Observed] | None = None
        """By what the last list was made that the registry has taken; None while it takes none."""
        self._started: dict[EngineName, ClusterEngine] = {}
        """Engines that run since a round looked."""

    def note_start(self, engine: ClusterEngine) -> None:
        """Note that an engine runs that did not when a round looked last."""
        self._started[engine.name] = engine

    def started_besides(self, engines: Sequence[ClusterEngine]) -> list[ClusterEngine]:
        """Return the engines that run since a round looked which has found these."""
        found = {engine.name for engine in engines}
        return [engine for name, engine in self._started.items() if name not in found]

    def started(self) -> frozenset[EngineName]:
        """Return the names of all engines that run since a round looked."""
        return frozenset(self._started)

    async def write(self, steps: Plan, observed: Observed, looked_after: frozenset[EngineName]) -> WrittenRoutes:
        """Write the routes of a round, which looked after these engines had started.

        Raises RegistryError and RegistryUnavailable.
        """
        async with self._writing:
            self._last = None
            self._started = {name: engine for name, engine in self._started.items() if name not in looked_after}
            routes = self._with_first_answers(steps, observed)
            revision = await self._publish(routes)
            self._last = steps, observed
            return WrittenRoutes(routes, revision)

    async def stop(self) -> None:
        """Write nothing between rounds, until one has written again."""
        async with self._writing:
            self._last = None
            self._started.clear()

    async def write_first_answers(self) -> None:
        """Write the last list again, with engines that answer since; where that fails it is left to the next round.

        So are engines that answer so soon behind these that the list would be written all the time.
        """
        began_s = time.monotonic()
        async with self._writing:
            if self._last is None:
                return
            routes = self._with_first_answers(*self._last)
            if routes is not self._last[0].routes:
                with suppress(RegistryUnavailable, RegistryError):
                    await self._publish(routes)
        await asyncio.sleep(time.monotonic() - began_s)

    def _with_first_answers(self, steps: Plan, observed: Observed) -> Routes:
        if self._started:
            engines = {engine.name: engine for engine in observed.engines}
            for name, engine in self._started.items():
                if name not in engines or engines[name].engine.phase is EnginePhase.STARTING:
                    engines[name] = ObservedEngine(engine)
            observed = replace(observed, engines=tuple(engines.values()))
        found = first_answers(steps, observed, self._verdict, self._tokenizer_of)
        return {**steps.routes, **found} if found else steps.routes
