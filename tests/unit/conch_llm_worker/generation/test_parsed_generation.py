"""Choices whose text is taken apart: the same parts however the engine groups its tokens, and every token counted."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from tokenizers import AddedToken

from conch_contracts.messages.answer_parsing import Parsing
from conch_contracts.messages.generation import Details, Usage
from conch_llm_worker.bodies.complete_body import ChoiceBody, complete_body
from conch_llm_worker.dialects.token_deltas import EngineEnd, Logprobs, TokenDelta
from conch_llm_worker.frames.answer_frames import frames_for
from conch_llm_worker.frames.stream_endings import DONE
from conch_llm_worker.generation.choice_rules import ChoiceRules
from conch_llm_worker.generation.choice_update import ChoiceFinish, ChoiceUpdate
from conch_llm_worker.generation.id_generation import IdGeneration
from conch_llm_worker.generation.parsed_generation import ParsedGeneration
from conch_llm_worker.generation.text_generation import TextGeneration
from conch_llm_worker.parsing.answer_reader import AnswerReader
from testkit.builders.generate_requests import generate_request, sampling
from testkit.models.transcripts import HERMES, MISTRAL, THINKING_HERMES, TRANSCRIPTS, Transcript, thoughts
from testkit.models.vocabularies import BYTE_EOS, byte_level, byte_level_tokenizer, vocabulary_of

VOCABULARY = byte_level()
USAGE = Usage(prompt_tokens=3, completion_tokens=2, reasoning_tokens=1)
CALL = '<tool_call>{"name": "now", "arguments": {"a": 1}}</tool_call>'


def updates(
    parsing: Parsing, groups: Sequence[bytes], **changes: Any
) -> tuple[list[ChoiceUpdate], ParsedGeneration, IdGeneration]:
    """Return the updates of a choice whose engine sends each group in one message; the id of a byte is the byte."""
    changes.setdefault("sampling", sampling(max_tokens=1000, eos_token_ids=(BYTE_EOS,), logprobs=0))
    request = generate_request(parsing=parsing, **changes)
    generation = IdGeneration(ChoiceRules.of(request, VOCABULARY), VOCABULARY)
    parsed = ParsedGeneration(generation, AnswerReader(parsing, lambda: "call_x"))
    made = []
    for at, group in enumerate(groups):
        last = at == len(groups) - 1
        ids = [*group, BYTE_EOS] if last else list(group)
        logprobs = Logprobs([-0.5] * len(ids), (), ()) if request.logprobs else None
        made.append(parsed.feed(TokenDelta(ids, logprobs, end=EngineEnd.STOP if last else None)))
        if made[-1].finish is not None:
            break
    return made, parsed, generation


def message(made: Sequence[ChoiceUpdate], **changes: Any) -> Any:
    """Return the choice of the complete body."""
    choice = ChoiceBody()
    for update in made:
        choice.add(update)
    return json.loads(complete_body(generate_request(**changes), [choice], USAGE, VOCABULARY))["choices"][0]


def streamed(made: Sequence[ChoiceUpdate], parsing: Parsing, **changes: Any) -> list[Any]:
    """Return the choices of all frames."""
    frames = frames_for(generate_request(parsing=parsing, **changes), VOCABULARY)
    raw = b"".join(frames.update(0, update) for update in made)
    return [json.loads(frame.removeprefix(b"data: "))["choices"][0] for frame in raw.split(b"\n\n") if frame]


def singles(text: str) -> list[bytes]:
    return [bytes([byte]) for byte in text.encode()]


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda transcript: transcript.name)
def test_a_message_has_the_parts_of_the_transcript(transcript: Transcript) -> None:
    for groups in (singles(transcript.text), [transcript.text.encode()]):
        made, _, _ = updates(transcript.parsing, groups)
        whole = message(made)
        assert (whole["message"]["content"] or "") == transcript.content
        assert (whole["message"]["reasoning_content"] or "") == transcript.reasoning
        calls = [
            (call["function"]["name"], call["function"]["arguments"]) for call in whole["message"].get("tool_calls", ())
        ]
        assert calls == list(transcript.calls)
        assert whole["finish_reason"] == ("tool_calls" if calls else "stop")


def test_the_tokens_between_the_marks_are_counted_however_they_are_grouped() -> None:
    text = "<think>\nabc</think>\nHi."
    for groups in (singles(text), [text.encode()], [text[:9].encode(), text[9:].encode()]):
        made, parsed, generation = updates(thoughts(), groups)
        # A mark of several tokens is thinking until its last one.
        assert parsed.reasoning_tokens == len("\nabc</think")
        assert generation.completion_tokens == len(text) + 1
        assert message(made)["message"]["reasoning"] == "abc"


@pytest.mark.parametrize("text", ["<think>abcdefgh</think>hi", "<think>\nabcdefgh\n</think>\nhi"])
@pytest.mark.parametrize("size", [1, 4, 12, 100])
@pytest.mark.parametrize("told", [True, False], ids=["engine counts", "tokenizer counts"])
@pytest.mark.parametrize("show", [True, False], ids=["shown", "hidden"])
def test_the_thinking_of_an_engine_of_text_is_counted_by_its_text(text: str, size: int, told: bool, show: bool) -> None:
    parsing = thoughts(show=show)
    request = generate_request(parsing=parsing, details=Details(continuous_usage=True))
    rules = ChoiceRules.of(request, VOCABULARY)
    generation = TextGeneration(request, rules, VOCABULARY)
    parsed = ParsedGeneration.of(generation, parsing, VOCABULARY, report_tokens=rules.report_tokens)
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    made = [parsed.feed(TokenDelta((), text=piece, made=len(piece) if told else None)) for piece in pieces]
    made.append(parsed.feed(TokenDelta((), end=EngineEnd.STOP)))
    assert parsed.reasoning_tokens == len("abcdefgh")
    assert sum(update.reasoning_tokens for update in made) == len("abcdefgh")
    assert sum(update.tokens for update in made) == len(text)
    plain = ParsedGeneration.of(TextGeneration(request, rules, VOCABULARY), parsing, VOCABULARY)
    for piece in pieces:
        plain.feed(TokenDelta((), text=piece))
    assert plain.reasoning_tokens == len("abcdefgh")


def test_an_answer_cut_inside_the_thinking_of_an_engine_of_text_is_all_thinking() -> None:
    request = generate_request(parsing=thoughts(), sampling=sampling(max_tokens=13))
    generation = TextGeneration(request, ChoiceRules.of(request, VOCABULARY), VOCABULARY)
    parsed = ParsedGeneration.of(generation, thoughts(), VOCABULARY)
    parsed.feed(TokenDelta((), text="<think>abcd</", made=13))
    parsed.feed(TokenDelta((), end=EngineEnd.LENGTH))
    assert parsed.reasoning_tokens == len("abcd</")


def test_steps_tell_the_thinking_however_their_ids_are_grouped() -> None:
    text = "<think>abc</think>Hi."
    for groups in (singles(text), [text.encode()], [text[:9].encode(), text[9:].encode()]):
        made, parsed, generation = updates(thoughts(), groups, details=Details(continuous_usage=True))
        assert sum(update.reasoning_tokens for update in made) == parsed.reasoning_tokens > 0
        assert sum(update.tokens for update in made) == generation.completion_tokens


def test_frames_tell_of_a_call_first_its_name_and_then_its_arguments_in_pieces() -> None:
    made, _, _ = updates(HERMES, [b"Well. ", *singles(CALL)])
    choices = streamed(made, HERMES)
    assert choices[0]["delta"] == {"content": "Well."}
    assert choices[1]["delta"] == {
        "tool_calls": [
            {"index": 0, "id": "call_x", "type": "function", "function": {"name": "now", "arguments": ""}},
        ]
    }
    pieces = [choice["delta"]["tool_calls"][0] for choice in choices[2:-1]]
    assert pieces == [{"index": 0, "function": {"arguments": piece}} for piece in '{"a": 1}']
    assert choices[-1] == {
        "index": 0, "delta": {"content": ""}, "logprobs": None, "finish_reason": "tool_calls", "stop_reason": None,
    }  # fmt: skip


def test_thinking_has_both_names_in_frames() -> None:
    made, _, _ = updates(THINKING_HERMES, [b"Hm.</think>Hi."])
    assert [choice["delta"] for choice in streamed(made, THINKING_HERMES)[:2]] == [
        {"reasoning_content": "Hm.", "reasoning": "Hm."},
        {"content": "Hi."},
    ]


@pytest.mark.parametrize("grouped", [False, True])
def test_every_token_has_its_log_probability_whatever_it_became(grouped: bool) -> None:
    text = "Hm.</think>Well. " + CALL
    groups = [text.encode()] if grouped else singles(text)
    made, _, _ = updates(THINKING_HERMES, groups, logprobs=True)
    shown = [choice["logprobs"] for choice in streamed(made, THINKING_HERMES, logprobs=True)]
    tokens = [entry["token"] for logprobs in shown if logprobs for entry in logprobs["content"]]
    assert "".join(tokens) == text + "<|end|>"
    whole = message(made, logprobs=True)["logprobs"]["content"]
    assert [entry["token"] for entry in whole] == tokens


def test_a_limit_inside_the_arguments_leaves_a_call_that_was_cut() -> None:
    limit = len('<tool_call>{"name": "now", "arguments": {"a"')
    made, _, _ = updates(HERMES, singles(CALL), sampling=sampling(max_tokens=limit))
    whole = message(made)
    assert whole["finish_reason"] == "length"
    assert whole["message"]["tool_calls"][0]["function"] == {"name": "now", "arguments": '{"a"'}


def test_a_stop_string_is_looked_for_in_calls_too() -> None:
    made, _, _ = updates(HERMES, singles(CALL), stop=(": 1",))
    assert made[-1].finish == ChoiceFinish("stop", ": 1")
    assert message(made)["message"]["tool_calls"][0]["function"]["arguments"] == '{"a"'


def test_an_answer_that_ends_inside_a_later_call_is_not_told_as_one_that_calls() -> None:
    made, _, _ = updates(HERMES, singles(CALL + CALL.replace("1", "2")), stop=(": 2",))
    assert made[-1].finish == ChoiceFinish("stop", ": 2")
    calls = message(made)["message"]["tool_calls"]
    assert [call["function"]["arguments"] for call in calls] == ['{"a": 1}', '{"a"']


def test_a_call_that_broke_is_content_in_the_message_and_stays_in_the_stream() -> None:
    broken = '<tool_call>{"name": "now", "arguments": {"a": <}}</tool_call>'
    made, _, _ = updates(HERMES, singles(broken))
    whole = message(made)
    assert (whole["message"]["content"], "tool_calls" in whole["message"]) == (broken, False)
    assert whole["finish_reason"] == "stop"
    assert "tool_calls" in streamed(made, HERMES)[0]["delta"]


def test_special_tokens_that_mark_calls_are_seen_and_others_are_not() -> None:
    tokenizer = byte_level_tokenizer()
    tokenizer.add_special_tokens([AddedToken("[TOOL_CALLS]", special=True), AddedToken("[X]", special=True)])
    vocabulary = vocabulary_of(tokenizer)
    ids = [tokenizer.token_to_id("[X]"), tokenizer.token_to_id("[TOOL_CALLS]"), *b"now{}"]
    request = generate_request(parsing=MISTRAL)
    generation = IdGeneration(ChoiceRules.of(request, vocabulary), vocabulary)
    assert generation.feed(TokenDelta(ids)).text == "[TOOL_CALLS]now{}"
    plain = IdGeneration(ChoiceRules.of(generate_request(), vocabulary), vocabulary)
    assert plain.feed(TokenDelta(ids)).text == "now{}"


def test_usage_tells_the_thinking_where_thinking_is_looked_for() -> None:
    frames = frames_for(generate_request(include_usage=True), VOCABULARY)
    told = json.loads(frames.ending(USAGE).removesuffix(DONE).removeprefix(b"data: "))["usage"]
    assert told["completion_tokens_details"] == {"reasoning_tokens": 1}
    assert b"completion_tokens_details" not in frames.ending(Usage(prompt_tokens=1, completion_tokens=1))
