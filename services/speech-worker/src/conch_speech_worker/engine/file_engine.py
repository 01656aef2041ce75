"""What hears the windows of one file: the engine that the gateway chose, and others when that one is replaced.

A file is many requests. An engine that is replaced answers those that it has and takes no more, so the windows that are
left go to another one that serves the model by then. It may have the same address: an engine that ended is started
again where it was. Nothing of a window has been written before all of it is heard, so asking for it again loses and
doubles no word. Until a first window is heard the gateway has the choice, since it knows what each engine has to do.
"""

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Set
from dataclasses import dataclass
from typing import Protocol

from conch_contracts.messages.transcription import SpeechTarget
from conch_contracts.names import EngineAddress
from conch_kit.triton.errors import EngineFull, EngineLost, EngineUnavailable
from conch_speech_worker.engine.calls import WindowCalls
from conch_speech_worker.transcript.segments import HeardWindow
from conch_speech_worker.windows.loudness import Samples

log = logging.getLogger(__name__)

LOOK_AGAIN_S = 0.5
"""Between two looks for an engine, and before one that took no window is asked again, as gateways let one rest."""
_MOST_REFUSALS = 3
"""Engines that may refuse one window or break down over it; more, and it may be the window's fault."""
_MOST_LOST = 1
"""Engines that may break down over one file."""


class Replacements(Protocol):
    """Where other engines come from."""

    async def another(self, target: SpeechTarget, without: Set[EngineAddress]) -> SpeechTarget | None:
        """Return an engine that can go on with a file, none of `without`; None where there is none now."""
        ...


CallsOf = Callable[[SpeechTarget], Awaitable[WindowCalls]]
"""Makes what speaks with an engine; raises EngineUnavailable for one that may not be dialled."""


@dataclass(frozen=True, slots=True, eq=False)
class HeldEngine:
    """The engine that windows go to, and what speaks with it."""

    target: SpeechTarget
    calls: WindowCalls


class FileEngine:
    """Hears the windows of one file."""

    def __init__(
        self,
        first: HeldEngine,
        calls_of: CallsOf,
        replacements: Replacements,
        *,
        timeout_s: float,
        patience_s: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`timeout_s` is for the whole file; a window waits `patience_s` for an engine that takes it."""
        self._held = first
        self._calls_of = calls_of
        self._replacements = replacements
        self._until = clock() + timeout_s
        self._patience_s = patience_s
        self._clock = clock
        self._sleep = sleep
        self._replacing = asyncio.Lock()
        self._rest_until: dict[EngineAddress, float] = {}
        """Engines that took no window, and when they may be asked again."""
        self._lost: set[EngineAddress] = set()
        self._not_dialled: set[EngineAddress] = set()
        self._has_heard = False

    @property
    def target(self) -> SpeechTarget:
        """The engine that the next window goes to."""
        return self._held.target

    async def hear(self, samples: Samples, prompt: tuple[int, ...]) -> HeardWindow:
        """Return what one window holds; raises EngineError."""
        refused_by, gives_up_at = set[EngineAddress](), math.inf
        while True:
            held = self._held
            try:
                heard = await held.calls.hear(samples, prompt, max(0.001, self._until - self._clock()))
            except (EngineUnavailable, EngineLost) as failure:
                if not isinstance(failure, EngineFull):
                    refused_by.add(held.target.grpc)
                if not self._has_heard or len(refused_by) == _MOST_REFUSALS:
                    raise
                gives_up_at = min(gives_up_at, self._clock() + self._patience_s, self._until)
                if not await self._may_ask_again(held, failure, gives_up_at):
                    raise
            else:
                self._has_heard = True
                return heard

    async def _may_ask_again(
        self, asked: HeldEngine, failure: EngineUnavailable | EngineLost, gives_up_at: float
    ) -> bool:
        """Hold an engine that may be asked behind one that has failed; return whether there is one."""
        address = asked.target.grpc
        if isinstance(failure, EngineLost):
            self._lost.add(address)
            return len(self._lost) <= _MOST_LOST and await self._is_replaced(asked)
        self._rest_until[address] = self._clock() + LOOK_AGAIN_S
        if isinstance(failure, EngineFull):
            await self._sleep(LOOK_AGAIN_S)
            return await self._is_replaced(asked) or self._clock() < gives_up_at
        while not await self._is_replaced(asked):
            if self._clock() >= gives_up_at:
                return False
            await self._sleep(LOOK_AGAIN_S)
        return True

    async def _is_replaced(self, asked: HeldEngine) -> bool:
        """Hold the next engine where there is one; another window's failure may have seen to it."""
        async with self._replacing:
            if self._held is not asked:
                return True
            chosen = await self._next(asked.target)
            if chosen is None:
                return False
            try:
                self._held = HeldEngine(chosen, await self._calls_of(chosen))
            except EngineUnavailable as failure:
                log.warning("An engine is not dialled.", extra={"engine": chosen.grpc, "error": failure.message})
                self._not_dialled.add(chosen.grpc)
                return False
            log.info("A file goes on.", extra={"engine": chosen.grpc, "before": asked.target.grpc})
            return True

    async def _next(self, asked: SpeechTarget) -> SpeechTarget | None:
        """Return another engine, else the same one where it has rested and the registry still names it."""
        now = self._clock()
        resting = {address for address, until in self._rest_until.items() if now < until}
        without = self._lost | self._not_dialled | resting
        return await self._replacements.another(asked, without | {asked.grpc}) or (
            None if asked.grpc in without else await self._replacements.another(asked, without)
        )
