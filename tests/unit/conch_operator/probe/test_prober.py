import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf

import pytest

from conch_contracts.conditions import Reason
from conch_contracts.names import EngineAddress
from conch_contracts.records import Dialect
from conch_operator.probe.prober import ON_CLUSTER, Cadence, NoAnswer, Prober, Target
from conch_operator.state import EngineName, Probe, ProbeVerdict
from testkit.clock import FakeClock
from testkit.waiting import eventually

TARGET = Target(EngineAddress("h:1"), "model", Dialect.TOKENS)
REFUSED = NoAnswer(Reason.ENGINE_LOAD_FAILED, "no such layer")
SILENT = NoAnswer(Reason.ENGINE_PROBE_FAILED, "silent", silent=True)
ERROR = NoAnswer(Reason.ENGINE_PROBE_FAILED, "A one-token request failed: CUDA error: device-side assert triggered")
UNREACHABLE = NoAnswer(Reason.ENGINE_UNREACHABLE, "Nothing answers.")
GONE = NoAnswer(Reason.ENGINE_PROBE_FAILED, "not healthy", dead=True)
BUSY = NoAnswer(Reason.ENGINE_PROBE_FAILED, "Exceeds maximum queue size", busy=True)
AT_ONCE = Cadence(starting_s=0, starting_per_s=inf, serving_s=0, serving_per_s=inf)


class ScriptedEngine:
    """Answers as told, and then no more."""

    def __init__(self, *answers: NoAnswer | None) -> None:
        self._answers = list(answers)
        self.finished = asyncio.Event()

    async def probe(self, target: Target) -> None:
        if not self._answers:
            self.finished.set()
            await asyncio.Event().wait()
        answer = self._answers.pop(0)
        if answer is not None:
            raise answer


class SlowEngine(ScriptedEngine):
    """Likewise, and takes so long each time."""

    def __init__(self, takes_s: float, *answers: NoAnswer | None) -> None:
        super().__init__(*answers)
        self._takes_s = takes_s
        self.clock = FakeClock()

    async def probe(self, target: Target) -> None:
        self.clock.advance(self._takes_s)
        await super().probe(target)


@pytest.mark.parametrize(
    ("answers", "verdict"),
    [
        ([], ProbeVerdict.PENDING),
        ([None], ProbeVerdict.READY),
        ([REFUSED], ProbeVerdict.FAILING),
        ([REFUSED, None], ProbeVerdict.READY),
        ([None, REFUSED], ProbeVerdict.FAILING),
        ([SILENT, SILENT, SILENT], ProbeVerdict.FAILING),
        ([None, SILENT], ProbeVerdict.READY),
        ([None, SILENT, SILENT], ProbeVerdict.DEAD),
        ([GONE], ProbeVerdict.DEAD),
        ([BUSY], ProbeVerdict.FAILING),
        ([None, BUSY, BUSY, BUSY], ProbeVerdict.READY),
        ([None, SILENT, None, SILENT], ProbeVerdict.READY),
    ],
)
async def test_the_verdict_follows_the_answers(answers: list[NoAnswer | None], verdict: ProbeVerdict) -> None:
    engine = ScriptedEngine(*answers)
    async with Prober(engine, lambda: None, AT_ONCE) as prober:
        prober.set_targets({"key": TARGET})
        await engine.finished.wait()
        assert prober.verdict("key").verdict is verdict


@pytest.mark.parametrize("before", [[], [None], [None, SILENT]])
async def test_an_engine_that_streams_to_others_is_alive_while_a_probe_waits_in_its_line(
    before: list[NoAnswer | None],
) -> None:
    engine = ScriptedEngine(*before, SILENT, SILENT, SILENT)
    asked: set[tuple[str, str]] = set()

    def is_streaming(address: EngineAddress, model: str) -> bool:
        asked.add((address, model))
        return True

    async with Prober(engine, lambda: None, AT_ONCE, is_streaming=is_streaming) as prober:
        prober.set_targets({"key": TARGET})
        await engine.finished.wait()
        assert prober.verdict("key") == Probe(ProbeVerdict.READY, Reason.READY)
    assert asked == {("h:1", "model")}


async def test_an_engine_that_streams_to_nobody_any_more_has_its_patience_again() -> None:
    streaming = iter([True, True, False, False])
    engine = ScriptedEngine(None, SILENT, SILENT, SILENT, SILENT)
    async with Prober(engine, lambda: None, AT_ONCE, is_streaming=lambda *_: next(streaming)) as prober:
        prober.set_targets({"key": TARGET})
        await engine.finished.wait()
        assert prober.verdict("key").verdict is ProbeVerdict.DEAD


async def test_nobody_is_held_for_dead_while_nobody_can_tell_to_whom_it_streams() -> None:
    told = iter([None, None, None, False, False])
    engine = ScriptedEngine(None, SILENT, SILENT, SILENT, SILENT)
    async with Prober(engine, lambda: None, AT_ONCE, is_streaming=lambda *_: next(told)) as prober:
        prober.set_targets({"key": TARGET})
        await engine.finished.wait()
        assert prober.verdict("key").verdict is ProbeVerdict.READY
    told = iter([None, False, False])
    silent = ScriptedEngine(None, SILENT, SILENT, SILENT)
    async with Prober(silent, lambda: None, AT_ONCE, is_streaming=lambda *_: next(told)) as prober:
        prober.set_targets({"key": TARGET})
        await silent.finished.wait()
        assert prober.verdict("key").verdict is ProbeVerdict.DEAD


@pytest.mark.parametrize(
    ("answers", "step_s", "streaming", "verdict"),
    [
        pytest.param([None, ERROR, ERROR], 5, False, ProbeVerdict.DEAD, id="errors alone since it answered"),
        pytest.param([None, ERROR, ERROR], 4.9, False, ProbeVerdict.FAILING, id="not for long"),
        pytest.param([None, ERROR, None], 5, False, ProbeVerdict.READY, id="it answers again"),
        pytest.param([None, ERROR, SILENT], 5, False, ProbeVerdict.FAILING, id="a silence behind an error"),
        pytest.param([None, ERROR, SILENT, ERROR], 5, False, ProbeVerdict.DEAD, id="errors and silences in turn"),
        pytest.param([BUSY, BUSY], 30, False, ProbeVerdict.FAILING, id="it is full, and nobody has seen it answer"),
        pytest.param([BUSY, BUSY], 30, None, ProbeVerdict.FAILING, id="it is full, and nobody can tell"),
        pytest.param([BUSY, BUSY], 30, True, ProbeVerdict.READY, id="it is full, and streams to others"),
        pytest.param([SILENT, ERROR, SILENT], 899, False, ProbeVerdict.FAILING, id="it says something meanwhile"),
        pytest.param([SILENT, SILENT], 30, None, ProbeVerdict.FAILING, id="it never answered, and nobody can tell"),
        pytest.param([None, ERROR, ERROR], 5, None, ProbeVerdict.FAILING, id="nobody can tell whether it streams"),
        pytest.param([None, ERROR, ERROR], 5, True, ProbeVerdict.FAILING, id="it streams to others"),
        pytest.param([None, ERROR, ERROR], 119, True, ProbeVerdict.FAILING, id="it streams to others for long"),
        pytest.param([None, ERROR, ERROR], 120, True, ProbeVerdict.DEAD, id="it streams to others, and errs for long"),
        pytest.param([ERROR, ERROR], 5, False, ProbeVerdict.FAILING, id="nobody has seen it answer"),
        pytest.param([ERROR, ERROR], 30, False, ProbeVerdict.DEAD, id="nobody has, for long"),
        pytest.param([UNREACHABLE, UNREACHABLE], 30, False, ProbeVerdict.FAILING, id="it is not there"),
        pytest.param([REFUSED, REFUSED], 30, False, ProbeVerdict.DEAD, id="it could not load"),
        pytest.param([REFUSED, ERROR, REFUSED], 20, False, ProbeVerdict.FAILING, id="for another reason meanwhile"),
        pytest.param([REFUSED, UNREACHABLE, REFUSED], 20, False, ProbeVerdict.DEAD, id="one stray probe meanwhile"),
    ],
)
async def test_an_engine_that_gives_errors_alone_for_a_while_has_to_be_started_again(
    answers: list[NoAnswer | None], step_s: float, streaming: bool | None, verdict: ProbeVerdict
) -> None:
    engine = SlowEngine(step_s, *answers)
    async with Prober(engine, lambda: None, AT_ONCE, is_streaming=lambda *_: streaming, clock=engine.clock) as prober:
        prober.set_targets({"key": TARGET})
        await engine.finished.wait()
        assert prober.verdict("key").verdict is verdict


class Starts:
    """One engine that is started again and again, and what is said of each start."""

    def __init__(self, cadence: Cadence) -> None:
        self.clock = FakeClock()
        self.cadence = replace(cadence, starting_s=0, starting_per_s=inf, serving_s=0, serving_per_s=inf)
        self.answer: NoAnswer | None = None
        self.count = 0
        self.said: list[tuple[ProbeVerdict, float]] = []
        """Each verdict on the start that goes on, and when it came."""

    async def probe(self, target: Target) -> None:
        self.clock.advance(0.5)
        await asyncio.sleep(0)
        if self.answer is not None:
            raise self.answer

    async def stays_s(self, prober: Prober, answer: NoAnswer) -> float:
        """Start it once more, and return after how long it counts as dead."""
        began = self.clock()
        self._start(prober, answer)
        await eventually(lambda: self._said(ProbeVerdict.DEAD), "its end")
        return self._said(ProbeVerdict.DEAD)[0] - began

    async def answers(self, prober: Prober) -> None:
        """Start it once more, until it has answered."""
        self._start(prober, None)
        await eventually(lambda: self._said(ProbeVerdict.READY), "an answer")

    def _start(self, prober: Prober, answer: NoAnswer | None) -> None:
        self.answer, self.said = answer, []
        self.count += 1
        prober.set_targets({self.count: replace(TARGET, engine=EngineName("one"))})

    def look(self, prober: Prober) -> None:
        self.said.append((prober.verdict(self.count).verdict, self.clock()))

    def _said(self, verdict: ProbeVerdict) -> list[float]:
        return [at_s for said, at_s in self.said if said is verdict]


@pytest.mark.parametrize(
    ("cadence", "times"), [(Cadence(), [30, 60, 120, 120]), (ON_CLUSTER, [30, 60, 120, 240, 480, 660, 660])]
)
async def test_a_server_that_cannot_load_is_tried_again_ever_more_rarely(cadence: Cadence, times: list[float]) -> None:
    starts = Starts(cadence)
    async with Prober(starts, lambda: starts.look(prober), starts.cadence, clock=starts.clock) as prober:
        found = [await starts.stays_s(prober, REFUSED) for _ in times]
        assert found == [pytest.approx(seconds, abs=1) for seconds in times]
        await starts.answers(prober)
        assert await starts.stays_s(prober, REFUSED) == pytest.approx(30, abs=1), "it has answered since"


async def test_a_start_that_says_nothing_for_very_long_is_given_up() -> None:
    starts = Starts(Cadence())
    async with Prober(starts, lambda: starts.look(prober), starts.cadence, clock=starts.clock) as prober:
        found = [await starts.stays_s(prober, SILENT) for _ in range(3)]
    assert found == [pytest.approx(seconds, abs=1) for seconds in (900, 1800, 3600)], "one that is slow gets there"


async def test_what_is_said_of_a_dead_engine_is_sentences() -> None:
    engine = ScriptedEngine(None, ERROR, ERROR)
    async with Prober(engine, lambda: None, replace(AT_ONCE, refusal_s=0)) as prober:
        prober.set_targets({"key": TARGET})
        await engine.finished.wait()
        said = prober.verdict("key").message
    assert said == f"{ERROR}. It answered before, and has to be started again."


async def test_a_server_that_could_not_load_its_model_has_to_go_after_a_while() -> None:
    engine = ScriptedEngine(None, REFUSED)
    async with Prober(
        engine, lambda: None, Cadence(starting_s=0, starting_per_s=inf, serving_s=0, serving_per_s=inf, reload_s=0)
    ) as prober:
        prober.set_targets({"key": TARGET})
        await engine.finished.wait()
        assert prober.verdict("key") == Probe(ProbeVerdict.DEAD, Reason.ENGINE_LOAD_FAILED, "no such layer")


async def test_a_new_incarnation_starts_without_a_verdict() -> None:
    engine = ScriptedEngine(None)
    async with Prober(engine, lambda: None, AT_ONCE) as prober:
        prober.set_targets({("tiny", 1): TARGET})
        await engine.finished.wait()
        prober.set_targets({("tiny", 2): TARGET})
        assert prober.verdict(("tiny", 2)) == Probe()
        assert prober.verdict(("tiny", 1)) == Probe()


async def test_an_engine_that_is_elsewhere_now_starts_without_a_verdict() -> None:
    engine = ScriptedEngine(None)
    async with Prober(engine, lambda: None, AT_ONCE) as prober:
        prober.set_targets({"external": TARGET})
        await engine.finished.wait()
        prober.set_targets({"external": Target(EngineAddress("h:2"), "model", Dialect.TOKENS)})
        assert prober.verdict("external") == Probe()


async def test_every_change_of_verdict_is_told_once() -> None:
    engine = ScriptedEngine(REFUSED, REFUSED, None, None)
    told: list[int] = []
    changed: Callable[[], None] = lambda: told.append(1)  # noqa: E731
    async with Prober(engine, changed, AT_ONCE) as prober:
        prober.set_targets({"key": TARGET})
        await engine.finished.wait()
    assert len(told) == 2


async def test_a_target_that_is_added_is_probed_until_all_are_told_again() -> None:
    engine = ScriptedEngine(None, None)
    async with Prober(engine, lambda: None, Cadence(serving_s=3600)) as prober:
        prober.set_targets({"one": TARGET})
        await eventually(lambda: prober.verdict("one").verdict is ProbeVerdict.READY, "the first answer")
        prober.add_targets({"one": TARGET, "two": TARGET})
        await eventually(lambda: prober.verdict("two").verdict is ProbeVerdict.READY, "the second answer")
        prober.set_targets({"one": TARGET, "two": TARGET})
        assert [prober.verdict(key).verdict for key in ("one", "two")] == [ProbeVerdict.READY] * 2
        prober.set_targets({"one": TARGET})
        assert prober.verdict("two") == Probe()


async def test_an_engine_that_begins_to_answer_is_told_of_before_the_change() -> None:
    engine = ScriptedEngine(REFUSED, None, None, BUSY, GONE, None)
    told: list[str] = []
    async with Prober(engine, lambda: told.append("changed"), AT_ONCE) as prober:
        prober.answered = lambda key: told.append(f"{key} answers")
        prober.set_targets({"it": TARGET})
        await engine.finished.wait()
    assert told == ["changed", "it answers", "changed", "changed", "it answers", "changed"]


class Pauses:
    """How often each pause between two probes was made; none of them takes any time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._made: dict[float, int] = {}
        self._sleep = asyncio.sleep
        monkeypatch.setattr("conch_operator.probe.prober.asyncio.sleep", self._note)

    def made(self, seconds: float) -> int:
        return self._made.get(seconds, 0)

    @property
    def longest(self) -> float:
        return max(self._made)

    async def _note(self, seconds: float) -> None:
        self._made[seconds] = self.made(seconds) + 1
        await self._sleep(0)


class ByModel:
    """Answers for each model of an engine as told."""

    def __init__(self, answers: Mapping[str, NoAnswer | None]) -> None:
        self.answers = dict(answers)

    async def probe(self, target: Target) -> None:
        answer = self.answers[target.model]
        if answer is not None:
            raise answer


async def test_of_many_engines_that_start_each_is_probed_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = Pauses(monkeypatch)
    refusing = ByModel({TARGET.model: REFUSED})
    async with Prober(refusing, lambda: None, Cadence(starting_s=0.1, starting_per_s=40)) as prober:
        prober.set_targets({"one": TARGET})
        await eventually(lambda: pauses.made(0.1) > 3, "a probe each 0.1 s")
        prober.set_targets({f"{number}": TARGET for number in range(8)})
        await eventually(lambda: pauses.made(0.2) > 3, "a probe each 0.2 s")
        prober.set_targets({})
    assert pauses.longest == 0.2


async def test_an_engine_of_somebody_else_is_probed_ever_less_often_while_it_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses, clock = Pauses(monkeypatch), FakeClock()
    engine = ByModel({TARGET.model: UNREACHABLE})
    cadence = Cadence(starting_s=0.1, serving_s=3.0, unanswered_share=0.05, starting_per_s=40)
    foreign = replace(TARGET, named_in="ns")
    async with Prober(engine, lambda: None, cadence, clock=clock) as prober:
        prober.set_targets({"it": foreign})
        await eventually(lambda: pauses.made(0.1) > 3, "a probe each 0.1 s at first")
        clock.advance(20.0)
        await eventually(lambda: pauses.made(1.0) > 3, "a probe each second after 20 s")
        clock.advance(1000.0)
        await eventually(lambda: pauses.made(3.0) > 3, "a probe each 3 s at last")
        engine.answers[TARGET.model] = None
        await eventually(lambda: prober.verdict("it").verdict is ProbeVerdict.READY, "its answer")
        engine.answers[TARGET.model] = UNREACHABLE
        before = pauses.made(0.1)
        await eventually(lambda: pauses.made(0.1) > before + 3, "a probe each 0.1 s once more")
        assert pauses.longest == 3.0
        prober.add_targets(dict.fromkeys(range(199), foreign))
        await eventually(lambda: pauses.made(5.0) > 200, "a probe of each of 200 in 5 s")
        prober.set_targets({})
    assert pauses.longest == 5.0


async def test_of_many_engines_that_serve_each_is_probed_less_often_but_those_in_doubt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses = Pauses(monkeypatch)
    engines = ByModel({TARGET.model: None, "doubtful": None})
    cadence = Cadence(starting_s=0.1, serving_s=3.0, serving_per_s=2, start_counts=4, patience=99)
    async with Prober(engines, lambda: None, cadence) as prober:
        prober.set_targets({"one": TARGET})
        await eventually(lambda: pauses.made(3.0) > 3, "a probe each 3 s")
        prober.set_targets({"doubtful": replace(TARGET, model="doubtful"), **{f"{one}": TARGET for one in range(9)}})
        await eventually(lambda: pauses.made(5.0) > 20, "a probe of each in 5 s")
        engines.answers["doubtful"] = SILENT
        before = pauses.made(3.0)
        await eventually(lambda: pauses.made(3.0) > before + 5, "probes of the silent one each 3 s")
        assert prober.verdict("doubtful").verdict is ProbeVerdict.READY
        engines.answers["starting"] = REFUSED
        prober.add_targets({"starting": replace(TARGET, model="starting")})
        await eventually(lambda: pauses.made(7.0) > 20, "ten that serve and one that starts, as four, in 7 s")
        prober.set_targets({})
