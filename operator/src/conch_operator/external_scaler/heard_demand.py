"""What gateways have to do, as the operator's own scaling hears it, and which gateways live."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

from conch_contracts.names import ModelId
from conch_contracts.records import GatewayBeat
from conch_kit.background_loops import BackgroundLoops
from conch_kit.redis.errors import RegistryUnavailable
from conch_operator.reconcile.living_gateways import LivingGateways
from conch_operator.scaling.decision import ModelLoad
from conch_operator.scaling.demand import DemandBook

_LOOK_S = 1.0


class Beats(Protocol):
    """Where gateways say that they live."""

    async def gateways(self) -> tuple[GatewayBeat, ...]:
        """Return each one's last beat; raises RegistryUnavailable."""


class HeardDemand(BackgroundLoops):
    """The demand for each model, as an async context manager that watches which gateways live."""

    def __init__(
        self,
        book: DemandBook,
        beats: Beats,
        *,
        clock: Callable[[], float] = time.monotonic,
        unix_time: Callable[[], float] = time.time,
    ) -> None:
        """Read a book that a DemandReader keeps; that one calls `heard`."""
        super().__init__(self._watch_gateways)
        self._book = book
        self._beats = beats
        self._clock = clock
        self._unix_time = unix_time
        self._living = LivingGateways()
        self._gateways: frozenset[str] = frozenset()
        self._listeners: defaultdict[ModelId, set[asyncio.Event]] = defaultdict(set)

    def of(self, model: ModelId) -> ModelLoad:
        """Return what there is to do for a model."""
        return self._book.of(model, self._gateways)

    def is_called(self, model: ModelId) -> bool:
        """Return whether somebody has asked for a model to be awake now."""
        return self._book.awake_until.get(model, 0.0) > self._unix_time()

    def heard(self, models: Collection[ModelId]) -> None:
        """Tell those who listen for these models, of which something new is known."""
        for model in [model for model in models if model in self._listeners]:
            for news in self._listeners[model]:
                news.set()

    @contextmanager
    def telling(self, model: ModelId, news: asyncio.Event) -> Iterator[None]:
        """Set the event when there may be something new about a model, and about once a second."""
        self._listeners[model].add(news)
        try:
            yield
        finally:
            self._listeners[model].discard(news)
            if not self._listeners[model]:
                del self._listeners[model]

    async def _watch_gateways(self) -> None:
        while True:
            with suppress(RegistryUnavailable):  # the book knows that Redis is away
                alive = self._living.look(await self._beats.gateways(), self._clock())
                self._gateways = frozenset(beat.id for beat in alive)
            self.heard(self._listeners)  # what follows from the time alone
            await asyncio.sleep(_LOOK_S)
