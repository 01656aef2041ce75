"""Finds out whether an engine really answers: a small request through it, again and again.

Triton calls a model ready whose Python process is dead, so readiness is only what such a request proves; the same check
is the engine's liveness. Each target has a task of its own, so a silent engine holds up nothing else.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Protocol, Self

from conch_contracts.conditions import Reason
from conch_contracts.names import EngineAddress
from conch_contracts.records import Dialect
from conch_operator.state import EngineName, Probe, ProbeVerdict

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
    engine: EngineName | None = None
    """Whose next start this may be."""


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

    starting_s: float = 0.04
    serving_s: float = 3.0
    starting_per_s: float = 250.0
    """So many probes of engines that start there are in a second at most: of many each is probed less often. So it is
    with those of somebody else that do not answer."""
    serving_per_s: float = 30.0
    """Likewise of engines that serve, but for those whose last probe was in vain."""
    start_counts: float = 20.0
    """Each engine of ours that starts counts as this many that serve: somebody waits for it, so it goes first."""
    longest_s: float = 60.0
    """How long one that serves is not probed at most."""
    unanswered_share: float = 0.05
    """One of somebody else that does not answer is probed again after this share of the time for which it has not, but
    after `serving_s` at the latest, unless there are many: perhaps nobody starts it any more."""
    patience: int = 2
    """Silences in a row after which an engine that has answered before counts as dead."""
    refusal_s: float = 5.0
    """How long one that has answered before may answer with errors alone until it counts as dead: after one fault of a
    GPU a process fails at everything."""
    reload_s: float = 30.0
    """How long a server stays that could not load its model, which it never tries again by itself, or that has given
    errors alone since it was first asked; twice as long each time that this follows, until the engine answers."""
    longest_reload_s: float = 120.0
    """How long it stays at most. So does one that has answered and gives errors alone while it streams to others."""
    mute_s: float = 900.0
    """How long one may take requests and say nothing that has not answered since its start: a first request may compile
    something. Twice as long each time that this follows."""

    def stays_s(self, in_vain: int) -> float:
        """Return how long a server that cannot do its work stays, after so many starts in vain."""
        return min(self.longest_reload_s, self.reload_s * 2.0**in_vain)


ON_CLUSTER = Cadence(longest_reload_s=660.0)
"""The kubelet forgets earlier ends of a container that ran for ten minutes, so reloads make no crash loop for long."""

FORGOTTEN_S = 1200.0
"""After which it counts no more how often an engine was started in vain that is not there: longer than the kubelet may
pause between two starts."""


class Prober:
    """Keeps a verdict on every target."""

    def __init__(
        self,
        client: ProbeClient,
        changed: Callable[[], None],
        cadence: Cadence = Cadence(),
        *,
        is_streaming: Callable[[EngineAddress, str], bool | None] = lambda address, model: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`is_streaming` tells whether this model of the engine at this address streams answers to others now.

        None: nobody can tell at the moment; silence says nothing then of an engine that has answered.
        """
        self.answered: Callable[[Hashable], None] = lambda _: None
        """Hears the key of each engine that has begun to answer, before anybody hears of a change."""
        self._client = client
        self._changed = changed
        self._cadence = cadence
        self._is_streaming = is_streaming
        self._clock = clock
        self._group = asyncio.TaskGroup()
        self._tasks: dict[Hashable, asyncio.Task[None]] = {}
        self._targets: dict[Hashable, Target] = {}
        self._verdicts: dict[Hashable, Probe] = {}
        self._starting: set[Hashable] = set()
        """Engines of ours that do not answer yet."""
        self._unanswering: set[Hashable] = set()
        """Those of somebody else that do not."""
        self._in_vain: dict[EngineName, tuple[int, float]] = {}
        """How often engines were started in vain since they answered last, and when that was last seen."""

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
            self._unanswering.discard(key)
        self._targets = {}
        self.add_targets(targets)
        if self._in_vain:
            there, old_s = {target.engine for target in targets.values()}, self._clock() - FORGOTTEN_S
            self._in_vain = {one: seen for one, seen in self._in_vain.items() if one in there or seen[1] > old_s}

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
        streams = partial(self._is_streaming, target.address, target.model)
        judge = _Judge(self._cadence, streams, self._clock, self._times_in_vain(target))
        while True:
            try:
                await self._client.probe(target)
                verdict = judge.answered()
            except NoAnswer as error:
                verdict = judge.failed(error)
                if error.detail and verdict != self._verdicts.get(key):
                    log.info("An external engine is not used.", extra={"engine": target.address, "error": error.detail})
            if verdict != self._verdicts.get(key):
                self._verdicts[key] = verdict
                self._note_start(target, verdict, in_vain=not judge.has_answered)
                if verdict.verdict is ProbeVerdict.READY:
                    self.answered(key)
                self._changed()
            await asyncio.sleep(self._pause_s(key, target, verdict, judge))

    def _times_in_vain(self, target: Target) -> int:
        return 0 if target.engine is None else self._in_vain.get(target.engine, (0, 0.0))[0]

    def _note_start(self, target: Target, verdict: Probe, *, in_vain: bool) -> None:
        if target.engine is None:
            return
        if verdict.verdict is ProbeVerdict.READY:
            self._in_vain.pop(target.engine, None)
        elif verdict.verdict is ProbeVerdict.DEAD and in_vain:
            self._in_vain[target.engine] = self._times_in_vain(target) + 1, self._clock()

    def _pause_s(self, key: Hashable, target: Target, verdict: Probe, judge: "_Judge") -> float:
        cadence = self._cadence
        foreign = target.named_in is not None
        waiting = self._unanswering if foreign else self._starting
        if verdict.verdict is ProbeVerdict.READY:
            waiting.discard(key)
            serving = len(self._tasks) - len(self._starting) + len(self._starting) * cadence.start_counts
            pause_s = 0 if judge.in_doubt else min(cadence.longest_s, serving / cadence.serving_per_s)
            return max(cadence.serving_s, pause_s)
        waiting.add(key)
        share_s = min(cadence.serving_s, judge.unanswered_s * cadence.unanswered_share) if foreign else 0.0
        return max(cadence.starting_s, share_s, len(waiting) / cadence.starting_per_s)


_READY = Probe(ProbeVerdict.READY, Reason.READY)


class _Judge:
    """Judges one incarnation of an engine: what it has answered so far says what it means when it does not."""

    def __init__(
        self, cadence: Cadence, is_streaming: Callable[[], bool | None], clock: Callable[[], float], in_vain: int
    ) -> None:
        self._cadence = cadence
        self._in_vain = in_vain
        self._is_streaming = is_streaming
        self._clock = clock
        self.has_answered = False
        """Whether it has answered once."""
        self._silences = 0
        self._mute_since: float | None = None
        self._errs: tuple[Reason, float] | None = None
        """For which reason it gives errors alone, and since when."""
        self._unanswered_since: float | None = None

    @property
    def in_doubt(self) -> bool:
        """Whether it has not answered the last time, or not as it should."""
        return self._silences > 0 or self._errs is not None

    @property
    def unanswered_s(self) -> float:
        """Return for how long it has answered nothing; 0 after an answer."""
        return 0.0 if self._unanswered_since is None else self._clock() - self._unanswered_since

    def answered(self) -> Probe:
        """Return the verdict on an engine that has answered."""
        self.has_answered, self._silences, self._mute_since, self._errs = True, 0, None, None
        self._unanswered_since = None
        return _READY

    def failed(self, error: NoAnswer) -> Probe:
        """Return the verdict on an engine that has not answered, or not as it should."""
        if self._unanswered_since is None:
            self._unanswered_since = self._clock()
        if error.busy:  # who is full works
            return self.answered() if self.has_answered or self._is_streaming() else _failing(error)
        if error.silent:
            return self._silent(error)
        self._silences, self._mute_since = 0, None
        stray = error.reason is Reason.ENGINE_UNREACHABLE  # a server that ends is another incarnation
        if self._errs is None or (self._errs[0] is not error.reason and not stray):
            self._errs = error.reason, self._clock()
        if error.dead or self._errs_for_good(error.reason, self._clock() - self._errs[1]):
            return self._dead(error)
        return _failing(error)

    def _silent(self, error: NoAnswer) -> Probe:
        streams = self._is_streaming()
        if streams:
            return self.answered()  # the request waits behind others in its line
        self._silences += streams is False
        if self.has_answered and self._silences >= self._cadence.patience:
            return self._dead(error)
        if self.has_answered and self._errs is None:
            return _READY  # One late answer under load is no verdict.
        self._mute_since = self._clock() if self._mute_since is None else self._mute_since
        if not self.has_answered and self._clock() - self._mute_since >= self._cadence.mute_s * 2.0**self._in_vain:
            return self._dead(error)
        return _failing(error)

    def _errs_for_good(self, reason: Reason, for_s: float) -> bool:
        if reason not in (Reason.ENGINE_LOAD_FAILED, Reason.ENGINE_PROBE_FAILED):
            return False
        if reason is Reason.ENGINE_PROBE_FAILED and self.has_answered:
            others = self._is_streaming() is not False
            return for_s >= (self._cadence.longest_reload_s if others else self._cadence.refusal_s)
        return for_s >= self._cadence.stays_s(self._in_vain)

    def _dead(self, error: NoAnswer) -> Probe:
        message = str(error)
        if self.has_answered and error.reason is not Reason.ENGINE_LOAD_FAILED:
            message = f"{message.rstrip('.')}. It answered before, and has to be started again."
        return Probe(ProbeVerdict.DEAD, error.reason, message)


def _failing(error: NoAnswer) -> Probe:
    return Probe(ProbeVerdict.FAILING, error.reason, str(error))
