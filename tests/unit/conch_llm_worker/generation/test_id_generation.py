"""One choice, fed with the bytes of a text as ids."""

import math
from collections.abc import Sequence

import pytest

from conch_contracts.messages.generation import GenerateRequest
from conch_kit.triton.errors import MalformedResponse
from conch_llm_worker.dialects.token_deltas import EngineEnd, Logprobs, TokenDelta
from conch_llm_worker.generation.choice_rules import ChoiceRules
from conch_llm_worker.generation.choice_update import ChoiceFinish, ChoiceUpdate
from conch_llm_worker.generation.id_generation import IdGeneration
from testkit.builders.generate_requests import backend, generate_request, prompt, sampling
from testkit.models.vocabularies import BYTE_EOS, byte_level

VOCABULARY = byte_level()
STOP = ChoiceFinish("stop")
LENGTH = ChoiceFinish("length")
STOP_HEL = ChoiceFinish("stop", "hel")


def generation(request: GenerateRequest) -> IdGeneration:
    return IdGeneration(ChoiceRules.of(request, VOCABULARY), VOCABULARY, request.prompts[0] if request.echo else None)


def logprobs_of(ids: Sequence[int]) -> Logprobs:
    return Logprobs([-float(id_) for id_ in ids], [(id_, 0) for id_ in ids], [(-float(id_), -9.0) for id_ in ids])


def run(
    one: IdGeneration, messages: list[list[int]], end: EngineEnd | None = None, *, logprobs: bool = False
) -> list[ChoiceUpdate]:
    updates = []
    for at, ids in enumerate(messages):
        last = end if at == len(messages) - 1 else None
        updates.append(one.feed(TokenDelta(ids, logprobs_of(ids) if logprobs else None, None, last)))
        if updates[-1].finish is not None:
            break
    return updates


def text(updates: list[ChoiceUpdate]) -> str:
    return "".join(update.text for update in updates)


def groupings(ids: list[int]) -> list[list[list[int]]]:
    return [[[id_] for id_ in ids], [ids[:2], ids[2:]], [ids]]


EOS = [BYTE_EOS]
REQUEST = {"eos_token_ids": (BYTE_EOS,)}
IGNORED = {**REQUEST, "ignore_eos": True}
BROKEN = "h\ufffd"
BAD = ChoiceFinish("stop", BROKEN)
L, LO = ChoiceFinish("stop", "l"), ChoiceFinish("stop", "lo")


@pytest.mark.parametrize("stop", [(), ("ab",)], ids=["nothing held", "a text held"])
def test_tokens_without_text_are_shown_before_they_are_many(stop: tuple[str, ...]) -> None:
    parameters = sampling(max_tokens=10_000, ignore_eos=True, **REQUEST)
    one = generation(generate_request(logprobs=True, stop=stop, sampling=parameters))
    shown = [len(update.entries) for update in run(one, [[*b"x"], [*b"a"], *[EOS] * 1000], logprobs=True)]
    assert sum(shown) > 900
    assert max(shown) <= 64


ENDINGS = [
    ("the end-of-sequence id", {}, REQUEST, [*b"hello", *EOS, *b"xx"], "hello", STOP, 6),
    ("an end id of the model's config", {"backend": backend(end_id=111)}, {}, list(b"hello!"), "hell", STOP, 5),
    ("a stop word of one id", {"backend": backend(stop_words=((111,),))}, {}, list(b"hello!"), "hell", STOP, 5),
    ("a longer stop word", {"backend": backend(stop_words=((108, 111),))}, {}, list(b"hello!"), "hel", LO, 5),
    ("a stop id", {}, {"stop_token_ids": (108,)}, list(b"hello!"), "he", ChoiceFinish("stop", 108), 3),
    ("an id that is both", {}, {**REQUEST, "stop_token_ids": (BYTE_EOS,)}, [*b"hi", *EOS], "hi", STOP, 3),
    ("a stop string", {"stop": ("lo",)}, REQUEST, list(b"hello!"), "hel", ChoiceFinish("stop", "lo"), 5),
    (
        "a stop string that is shown",
        {"stop": ("lo",), "include_stop_str_in_output": True},
        {},
        list(b"hello!"),
        "hello",
        ChoiceFinish("stop", "lo"),
        5,
    ),
    ("the limit", {}, {"max_tokens": 3}, list(b"hello"), "hel", LENGTH, 3),
    ("a stop string at the limit", {"stop": ("hel",)}, {"max_tokens": 3}, list(b"hello"), "", STOP_HEL, 3),
    ("an end id right at the limit", {}, {**REQUEST, "max_tokens": 3}, [*b"hi", *EOS], "hi", STOP, 3),
    ("an end id beyond the limit", {}, {**REQUEST, "max_tokens": 2}, [*b"hi", *EOS], "hi", LENGTH, 2),
    ("a half stop string, then the end", {"stop": ("o!",)}, REQUEST, [*b"hello", *EOS], "hello", STOP, 6),
    ("half a character, then the end", {}, REQUEST, [*b"h\xe4\xbd", *EOS], "h\ufffd", STOP, 4),
    ("half a character that ends a stop string", {"stop": (BROKEN,)}, REQUEST, [*b"ah\xe4\xbd", *EOS], "a", BAD, 5),
    ("a stop string with half a character behind it", {"stop": (BROKEN,)}, REQUEST, [*b"h\xe4\xe5", *EOS], "", BAD, 3),
    ("an end id that is ignored", {}, {**IGNORED, "max_tokens": 4}, [*b"hi", *EOS, *b"!"], "hi!", LENGTH, 4),
    ("an end id after min_tokens", {}, {**REQUEST, "min_tokens": 3}, [104, *EOS, 105, *EOS], "hi", STOP, 4),
    ("a stop string after min_tokens", {"stop": ("l",)}, {"min_tokens": 3}, list(b"hello"), "hel", L, 4),
]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "limits", "ids", "expected", "finish", "tokens"), [e[1:] for e in ENDINGS], ids=[e[0] for e in ENDINGS]
)
@pytest.mark.parametrize("logprobs", [False, True], ids=["", "with logprobs"])
def test_what_ends_a_choice_is_the_same_however_tokens_are_grouped(
    changes: dict, limits: dict, ids: list[int], expected: str, finish: ChoiceFinish, tokens: int, logprobs: bool
) -> None:
    for messages in groupings(ids):
        one = generation(generate_request(**changes, sampling=sampling(**limits), logprobs=logprobs))
        updates = run(one, messages, logprobs=logprobs)
        assert (text(updates), one.finish, one.completion_tokens) == (expected, finish, tokens), messages


@pytest.mark.parametrize(
    ("end", "stop_token_id", "finish"),
    [
        (EngineEnd.LENGTH, None, LENGTH),
        (EngineEnd.STOP, None, STOP),
        (EngineEnd.STOP, 9, ChoiceFinish("stop", 9)),
        (EngineEnd.STOP, BYTE_EOS, STOP),
        (EngineEnd.UNKNOWN, None, STOP),
    ],
)
def test_the_engine_may_end_a_choice_by_itself(end: EngineEnd, stop_token_id: int | None, finish: ChoiceFinish) -> None:
    one = generation(generate_request(sampling=sampling(**REQUEST)))
    assert one.feed(TokenDelta([104], None, None, end, stop_token_id)) == ChoiceUpdate("h", (), finish)


def test_an_engine_that_gives_up_by_itself_is_at_fault() -> None:
    with pytest.raises(MalformedResponse):
        generation(generate_request()).feed(TokenDelta((), end=EngineEnd.CANCELLED))


def test_a_choice_of_no_tokens_drops_what_the_engine_made() -> None:
    one = generation(generate_request(sampling=sampling(max_tokens=0)))
    assert one.feed(TokenDelta([104], end=EngineEnd.LENGTH)) == ChoiceUpdate("", (), LENGTH)
    assert one.completion_tokens == 0


def test_a_skipped_special_token_shows_only_when_asked_for() -> None:
    shown = generation(generate_request(skip_special_tokens=False))
    assert shown.feed(TokenDelta([BYTE_EOS])).text == "<|end|>"
    assert generation(generate_request()).feed(TokenDelta([BYTE_EOS])).text == ""


def test_log_probabilities_go_out_with_the_text_of_their_token() -> None:
    one = generation(generate_request(logprobs=True, stop=("lo",), sampling=sampling(logprobs=2)))
    updates = run(one, [[id_] for id_ in b"hell"], logprobs=True)
    assert [(update.text, [entry.token_id for entry in update.entries]) for update in updates] == [
        ("h", [104]),
        ("e", [101]),
        ("", []),
        ("l", [108]),
    ]
    assert updates[0].entries[0].top_ids == (104, 0)
    last = one.feed(TokenDelta([111], logprobs_of([111])))
    assert [entry.token_id for entry in last.entries] == [108, 111]  # those of the stop string: as many as are counted
    assert (last.text, last.finish) == ("", ChoiceFinish("stop", "lo"))


def test_log_probabilities_of_the_parts_of_a_character_wait_for_it() -> None:
    one = generation(generate_request(logprobs=True))
    updates = run(one, [[byte] for byte in "a你".encode()], logprobs=True)
    assert [len(update.entries) for update in updates] == [1, 0, 0, 3]
    assert [entry.offset for entry in updates[3].entries] == [1, 1, 1]


def test_the_ending_token_has_the_last_entry_and_the_rest_goes_out_with_it() -> None:
    for messages in ([[104], [0xE4], [BYTE_EOS]], [[104, 0xE4, BYTE_EOS, 105]]):
        one = generation(generate_request(logprobs=True, sampling=sampling(**REQUEST)))
        updates = run(one, messages, logprobs=True)
        entries = [(entry.token_id, entry.logprob) for update in updates for entry in update.entries]
        assert entries == [(104, -104.0), (0xE4, -228.0), (BYTE_EOS, -float(BYTE_EOS))]
        assert len(entries) == one.completion_tokens


def test_missing_log_probabilities_are_the_engines_fault() -> None:
    with pytest.raises(MalformedResponse):
        generation(generate_request(logprobs=True)).feed(TokenDelta([104]))


def test_an_echo_begins_the_text_and_later_offsets_count_it() -> None:
    one = generation(generate_request(echo=True, logprobs=True, prompts=(prompt(b"ab", "ab"),)))
    echo = one.echo(Logprobs([math.nan, -1.0], [(0,), (98,)], [(math.nan,), (-1.0,)]))
    assert echo.text == "ab"
    assert [(entry.offset, entry.logprob, entry.top_ids) for entry in echo.entries] == [(0, None, ()), (1, -1.0, (98,))]
    assert one.feed(TokenDelta([104], logprobs_of([104]))).entries[0].offset == 2


def test_an_echo_without_its_log_probabilities_is_the_engines_fault() -> None:
    one = generation(generate_request(echo=True, logprobs=True))
    with pytest.raises(MalformedResponse):
        one.echo(None)
