"""The scheduler on a model that is easy to predict: the next id is the sum of sound and ids so far, modulo 50."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from conch_contracts.messages.transcription import SpeechParameters
from conch_runtime_cpu.engine.request_key import RequestKey
from conch_runtime_cpu.engine.scheduler import FinishReason
from conch_runtime_cpu.engine.speech_scheduler import DECODINGS_BETWEEN_ENCODINGS, SpeechScheduler, WindowEvent
from conch_runtime_cpu.speech.vocabulary import SpeechVocabulary
from conch_runtime_cpu.speech.window_requests import WindowRequest

TEXT, END, START, LANGUAGES, NO_SPEECH, NO_TIMES, SIZE = 50, 50, 51, (52, 53, 54), 56, 57, 100
VOCABULARY = SpeechVocabulary(
    SIZE, START, (END,), frozenset(LANGUAGES), NO_TIMES, NO_SPEECH, alignment_heads=((0, 0), (0, 1))
)
CONTEXT = 110
SILENT_SOUND = 1000
"""From here on nobody speaks."""


class SumModel:
    """Keeps the sound and the ids of each row, so that a wrong row or length shows."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.vocabulary = SIZE
        self.context = CONTEXT
        self.logits = np.zeros((slots, SIZE), np.float32)
        self.calls: list[str] = []
        self.batches: list[int] = []
        self._rows = np.full((slots, CONTEXT), -1, np.int64)
        self._sounds = np.full(slots, -1, np.int64)
        self._prompts = np.zeros(slots, np.int64)

    def encode(self, row: int, features: NDArray[np.float32]) -> None:
        self.calls.append("encode")
        self._rows[row] = -1
        self._sounds[row] = int(features[0, 0])

    def decode(self, tokens: list[int], lengths: list[int]) -> None:
        self.calls.append("decode")
        self.batches.append(len(tokens))
        for row, (token, length) in enumerate(zip(tokens, lengths, strict=True)):
            self._rows[row, length - 1] = token
            self.logits[row] = self._predict(row, length)

    def prefill(self, row: int, ids: NDArray[np.int64], keep: Sequence[int]) -> NDArray[np.float32]:
        self._rows[row, : len(ids)] = ids
        self._prompts[row] = len(ids)
        return np.array([self._predict(row, place + 1) for place in keep])

    def attention(
        self, row: int, ids: NDArray[np.int64], heads: Sequence[tuple[int, int]], frames: int
    ) -> NDArray[np.float32]:
        self.calls.append("attention")
        assert len(ids) <= CONTEXT
        assert self._sounds[row] >= 0
        scores = np.zeros((len(heads), len(ids), frames), np.float32)
        for place in range(len(ids)):
            scores[:, place, place * frames // len(ids) : (place + 1) * frames // len(ids)] = 9
        return scores

    def move(self, source: int, target: int, length: int) -> None:
        self._rows[target] = -1
        self._rows[target, :length] = self._rows[source, :length]
        self._sounds[target], self._prompts[target] = self._sounds[source], self._prompts[source]
        self._rows[source] = self._sounds[source] = -1

    def _predict(self, row: int, length: int) -> NDArray[np.float32]:
        ids, sound = self._rows[row, :length], int(self._sounds[row])
        assert (ids >= 0).all(), "a place was never written"
        assert sound >= 0, "nothing was heard"
        logits = np.zeros(SIZE, np.float32)
        logits[next_id(sound, ids.tolist(), length - int(self._prompts[row]))] = 10
        logits[LANGUAGES[sound % 3]] = 5
        if sound >= SILENT_SOUND:
            logits[NO_SPEECH] = 20
        return logits


class FirstSample:
    """Hears the first sample only."""

    def of(self, pcm: NDArray[np.int16]) -> NDArray[np.float32]:
        return np.array([[pcm[0]]], np.float32)


def next_id(sound: int, ids: list[int], made: int) -> int:
    return END if made > sound % 37 else (sound + sum(ids)) % TEXT


def expected(sound: int, prompt: list[int]) -> tuple[int, ...]:
    ids, made = list(prompt), []
    while (token := next_id(sound, ids, len(made))) != END:
        ids.append(token)
        made.append(token)
    return tuple(made)


def request(sound: int, prompt: list[int], **fields: object) -> WindowRequest:
    parameters = SpeechParameters(**{"max_tokens": 100, **fields})
    pcm = np.full(3200, sound, np.int16)
    timed = NO_TIMES not in prompt
    return WindowRequest(pcm, np.array(prompt, np.int64), prompt.index(START), timed, parameters, seed=1)


class Run:
    """Collects the events of a scheduler."""

    def __init__(self, slots: int) -> None:
        self.model = SumModel(slots)
        self.scheduler = SpeechScheduler(self.model, FirstSample(), VOCABULARY, filter_width=7)
        self.events: dict[int, list[WindowEvent]] = defaultdict(list)
        self.ended: list[int] = []

    def add(self, key: int, sound: int, prompt: list[int], **fields: object) -> None:
        self.scheduler.add(RequestKey(key), request(sound, prompt, **fields))

    def step(self, *, decoding: bool = True) -> None:
        for event in self.scheduler.step(decoding=decoding):
            assert event.key not in self.ended, "an event after the end"
            self.events[event.key].append(event)
            if event.answer is not None or event.error is not None:
                self.ended.append(event.key)

    def drain(self) -> None:
        for _ in range(10_000):
            if self.scheduler.idle:
                return
            self.step()
        raise AssertionError("never idle")

    def answer(self, key: int):
        answer = self.events[key][-1].answer
        assert answer is not None
        return answer


PROMPT = [START, 52, 55, NO_TIMES]


def test_a_window_gets_its_language_and_then_its_answer() -> None:
    run = Run(2)
    run.add(1, 6, PROMPT)
    run.drain()
    heard, ended = run.events[1]
    assert heard.heard is not None
    assert heard.heard.language_id == 52
    assert 0 < heard.heard.no_speech_prob < 0.1
    assert ended.answer is not None
    assert ended.answer.tokens == expected(6, PROMPT)
    assert ended.answer.reason is FinishReason.STOP
    assert len(ended.answer.logprobs) == len(ended.answer.tokens)
    assert ended.answer.avg_logprob == pytest.approx(np.mean(ended.answer.logprobs), abs=0.01)


def test_many_windows_of_every_length_each_get_their_own_text() -> None:
    random = np.random.default_rng(0)
    run, wanted = Run(4), {}
    for key in range(60):
        sound = int(random.integers(0, 900))
        prompt = [*random.integers(0, 40, random.integers(0, 20)).tolist(), *PROMPT]
        wanted[key] = expected(sound, prompt)
        run.add(key, sound, prompt)
        for _ in range(int(random.integers(0, 6))):
            run.step()
    run.drain()
    assert {key: run.answer(key).tokens for key in wanted} == wanted
    assert 1 < max(run.model.batches) <= 4


def test_a_language_is_found_and_becomes_part_of_the_prompt() -> None:
    run = Run(1)
    for sound, language in ((9, 52), (10, 53), (11, 54)):
        run.add(sound, sound, [3, START, -1, 55, NO_TIMES])
        run.drain()
        heard = run.events[sound][0].heard
        assert heard is not None
        assert heard.language_id == language
        assert run.answer(sound).tokens == expected(sound, [3, START, language, 55, NO_TIMES])
    run.add(1, 9, [START, -1, 55, NO_TIMES], languages=(53, 54))
    run.drain()
    assert run.events[1][0].heard is not None
    assert run.events[1][0].heard.language_id == 53


def test_a_prompt_without_a_language_has_none() -> None:
    run = Run(1)
    run.add(1, 4, [START, NO_TIMES])
    run.drain()
    assert run.events[1][0].heard is not None
    assert run.events[1][0].heard.language_id == -1


def test_windows_beyond_the_slots_wait_in_order() -> None:
    run = Run(1)
    for key in (1, 2, 3):
        run.add(key, 3, PROMPT)
    run.drain()
    assert run.ended == [1, 2, 3]


def test_running_windows_go_on_between_two_encodings() -> None:
    run = Run(8)
    for key in range(8):
        run.add(key, 6 + 7 * key, PROMPT, temperatures=(0.0,) * 16, logprob_threshold=1.0)
    run.drain()
    calls = "".join("E" if call == "encode" else "d" for call in run.model.calls)
    assert calls.count("E") == 8
    assert all(len(gap) >= DECODINGS_BETWEEN_ENCODINGS for gap in calls.split("E")[1:-1])


def test_without_decoding_only_waiting_windows_make_progress() -> None:
    run = Run(2)
    run.add(1, 6, PROMPT)
    run.add(2, 13, PROMPT)
    for _ in range(3):
        run.step(decoding=False)
    assert run.model.calls == ["encode", "encode"]
    run.drain()
    assert run.answer(1).tokens == expected(6, PROMPT)
    assert run.answer(2).tokens == expected(13, PROMPT)


@pytest.mark.parametrize("when", ["waiting", "running"])
def test_a_cancelled_window_ends_in_the_next_step_and_disturbs_nobody(when: str) -> None:
    run = Run(3)
    run.add(1, 6, PROMPT, temperatures=(0.0,) * 9, logprob_threshold=1.0)
    run.step()
    run.add(2, 13, PROMPT, temperatures=(0.0,) * 16, logprob_threshold=1.0)
    if when == "running":
        while not run.events[2]:
            run.step()
    run.add(3, 20, PROMPT)
    run.scheduler.cancel(RequestKey(2))
    run.step()
    assert run.answer(2).reason is FinishReason.CANCELLED
    assert run.answer(2).tokens == ()
    run.drain()
    assert run.answer(1).tokens == expected(6, PROMPT)
    assert run.answer(3).tokens == expected(20, PROMPT)
    run.scheduler.cancel(RequestKey(3))  # has ended: no error
    run.step()


def test_a_rejected_try_is_repeated_on_the_same_sound() -> None:
    run = Run(2)
    run.add(1, 6, PROMPT, temperatures=(0.0, 0.0, 1e-6), logprob_threshold=1.0)
    run.add(2, 13, PROMPT)
    run.drain()
    assert run.answer(1).tokens == expected(6, PROMPT)
    assert run.answer(1).temperature == 1e-6
    assert run.answer(2).tokens == expected(13, PROMPT)
    assert run.answer(2).temperature == 0.0
    assert run.model.calls.count("encode") == 2


def test_a_try_that_is_accepted_is_the_last() -> None:
    run = Run(1)
    run.add(1, 6, PROMPT, temperatures=(0.0, 1.0), logprob_threshold=-1.0, compression_ratio_threshold=2.4)
    run.drain()
    assert run.answer(1).temperature == 0.0


def test_a_limit_of_one_id_is_kept_by_every_try() -> None:
    run = Run(1)
    run.add(1, 6, PROMPT, max_tokens=1, temperatures=(0.0, 0.0, 0.0), logprob_threshold=1.0)
    run.drain()
    assert run.answer(1).tokens == expected(6, PROMPT)[:1]
    assert run.answer(1).reason is FinishReason.LENGTH


def test_a_window_in_which_nobody_speaks_has_no_ids() -> None:
    run = Run(1)
    run.add(1, SILENT_SOUND + 3, PROMPT, no_speech_threshold=0.6, logprob_threshold=1.0, word_times=True)
    run.add(2, SILENT_SOUND + 3, PROMPT, no_speech_threshold=0.6, logprob_threshold=-100.0)
    run.drain()
    heard = run.events[1][0].heard
    assert heard is not None
    assert heard.no_speech_prob > 0.9
    assert (run.answer(1).tokens, run.answer(1).logprobs) == ((), ())
    assert run.answer(1).times.tolist() == [0.0]
    assert len(run.answer(2).tokens) > 0


def test_times_of_words_are_as_many_as_ids_and_one_more() -> None:
    run = Run(2)
    run.add(1, 6, PROMPT, word_times=True)
    run.add(2, 6, PROMPT)
    run.drain()
    times = run.answer(1).times
    assert len(times) == len(run.answer(1).tokens) + 1
    assert times.tolist() == sorted(times.tolist())
    assert times[-1] <= 0.2  # the sound's length
    assert run.answer(2).times is None
    assert run.model.calls.count("attention") == 1


def test_an_answer_that_fills_the_context_has_times_too() -> None:
    run = Run(1)
    run.add(1, 36, [START, 52, 55, NO_TIMES], max_tokens=20, word_times=True)
    run.model.context = 24
    run.drain()
    assert len(run.answer(1).times) == 21


def test_an_answer_with_times_begins_with_one() -> None:
    run = Run(1)
    run.add(1, 6, [START, 52, 55], max_tokens=3, word_times=True)
    run.drain()
    assert run.answer(1).tokens[0] > NO_TIMES
    assert len(run.answer(1).times) == 4
