import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conch_contracts.messages.answer_parsing import Parsing
from conch_contracts.messages.message import changed
from conch_contracts.tool_call_marks import ToolCallParser
from conch_llm_worker.parsing.answer_events import (
    CallArguments,
    CallBegin,
    CallBroken,
    CallEnd,
    Content,
    Event,
    Reasoning,
)
from conch_llm_worker.parsing.answer_reader import AnswerReader
from conch_llm_worker.parsing.text_buffer import MAX_NAME_CHARS
from testkit.models.transcripts import GLM, HERMES, KIMI, LLAMA3, PYTHONIC, TRANSCRIPTS, Transcript, thoughts, tools


@dataclass
class Answer:
    """Everything that an answer's events say, joined."""

    parts: list[Event] = field(default_factory=list)

    def add(self, events: Iterable[Event]) -> None:
        for event in events:
            last = self.parts[-1] if self.parts else None
            match last, event:
                case ((Content() | Reasoning()), (Content() | Reasoning())) if type(last) is type(event):
                    self.parts[-1] = type(event)(last.text + event.text)
                case CallArguments(), CallArguments():
                    self.parts[-1] = CallArguments(event.call, last.text + event.text)
                case _:
                    self.parts.append(event)


def test_spaces_before_the_thinking_count_alike_however_they_come() -> None:
    for count in (4096, 4097, 5000):
        text = " " * count + "<think>a</think>b"
        whole_text, singles = (whole(read(thoughts(), pieces)) for pieces in ([text], [*text]))
        assert whole_text == singles


def read(parsing: Parsing, pieces: Sequence[str], *, cut: bool = False) -> list[Event]:
    numbers = itertools.count()
    reader, answer = AnswerReader(parsing, lambda: f"call_{next(numbers)}"), Answer()
    for at, piece in enumerate(pieces):
        answer.add(reader.feed(piece))
        if reader.plain:
            answer.add(Content(rest) for rest in pieces[at + 1 :] if rest)
            return answer.parts
    answer.add(reader.finish(cut=cut))
    return answer.parts


def whole(events: Sequence[Event]) -> tuple[str, str, tuple[tuple[str, str], ...]]:
    """Return content, reasoning and complete calls, as in an answer that is not streamed."""
    content, reasoning, calls = "", "", {}
    for event in events:
        match event:
            case Content(text):
                content += text
            case Reasoning(text):
                reasoning += text
            case CallBegin(index, _, name):
                calls[index] = [name, ""]
            case CallArguments(index, text):
                calls[index][1] += text
            case CallBroken(index, raw):
                content += raw
                del calls[index]
            case CallEnd():
                pass
    return content, reasoning, tuple((name, arguments) for name, arguments in calls.values())


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda transcript: transcript.name)
def test_a_transcript_is_taken_apart(transcript: Transcript) -> None:
    found = whole(read(transcript.parsing, [transcript.text]))
    assert found == (transcript.content, transcript.reasoning, transcript.calls)


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda transcript: transcript.name)
def test_the_cut_into_characters_makes_no_difference(transcript: Transcript) -> None:
    assert read(transcript.parsing, list(transcript.text)) == read(transcript.parsing, [transcript.text])


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(st.data())
def test_no_cut_makes_a_difference(data: st.DataObject) -> None:
    transcript = data.draw(st.sampled_from(TRANSCRIPTS))
    end = data.draw(st.integers(0, len(transcript.text)))
    places = data.draw(st.lists(st.integers(0, end), max_size=12).map(sorted))
    cut = data.draw(st.booleans())
    pieces = [transcript.text[a:b] for a, b in itertools.pairwise([0, *places, end])]
    assert read(transcript.parsing, pieces, cut=cut) == read(transcript.parsing, [transcript.text[:end]], cut=cut)


MARKS = (
    *("<tool_call>", "</tool_call>", "<think>", "</think>", "[TOOL_CALLS]", "<|python_tag|>", "<function=a>"),
    *("now", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "[now(", "a=", "a='", ")", "'", "\\u00e9"),
    *("<|tool_call_begin|>", "functions.now:0", "<|tool_call_argument_begin|>", "{}", "<|tool_call_end|>"),
)
BITS = st.sampled_from(
    [*MARKS, '{"name": "now", "arguments": {', "}", "}}", '"', "\\", "a", " ", "\n", "[", "]", ",", ";"]
)


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(st.sampled_from([one.parsing for one in TRANSCRIPTS]), st.lists(BITS, max_size=20), st.booleans())
def test_neither_does_it_in_nonsense_and_no_letter_is_lost(parsing: Parsing, bits: list[str], cut: bool) -> None:
    pieces = read(parsing, bits, cut=cut)
    assert pieces == read(parsing, ["".join(bits)], cut=cut)
    content, _, calls = whole(pieces)
    if parsing.thinking is None and not calls and parsing.calls is not None and parsing is not KIMI:
        assert content == "".join(bits)


def test_arguments_come_as_they_are_written() -> None:
    reader = AnswerReader(HERMES, lambda: "call_1")
    assert reader.feed('<tool_call>{"name": "get_weather", "arg') == []
    assert reader.feed('uments": {"ci') == [CallBegin(0, "call_1", "get_weather"), CallArguments(0, '{"ci')]
    assert reader.feed('ty": "Par') == [CallArguments(0, 'ty": "Par')]
    assert reader.feed('is"}') == [CallArguments(0, 'is"}')]
    assert reader.feed("}") == [CallEnd(0)]
    assert reader.finish(cut=False) == []
    assert reader.calls == 1


@pytest.mark.parametrize("value", ["1e999", "-1" + "0" * 400, '"\\ud800"', "9" * 5000])
@pytest.mark.parametrize(
    ("parsing", "text"),
    [
        (HERMES, '<tool_call>\n{{"name": "add", "arguments": {0}}}\n</tool_call>'),
        (tools(ToolCallParser.JSON), '[{{"name": "add", "parameters": {0}}}]'),
        (LLAMA3, '{{"name": "add", "parameters": {0}}}'),
    ],
)
def test_arguments_may_hold_all_that_json_allows(parsing: Parsing, text: str, value: str) -> None:
    arguments = f'{{"a": {value}}}'
    assert whole(read(parsing, [text.format(arguments)])) == ("", "", (("add", arguments),))


def test_arguments_given_as_a_text_keep_half_of_a_pair_as_it_is_written() -> None:
    said = '<tool_call>{"name": "add", "arguments": "{\\"a\\": \\"\\ud800\\"}"}</tool_call>'
    assert whole(read(HERMES, [said])) == ("", "", (("add", '{"a": "\\ud800"}'),))


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "[" * 100_000])
def test_what_is_not_json_is_no_call(value: str) -> None:
    content, _, calls = whole(read(LLAMA3, [f'{{"name": "add", "parameters": {{"a": {value}}}}}']))
    assert content
    assert calls == ()


@pytest.mark.parametrize("arguments", ["[1]", '"now"', "3", "nothing"])
@pytest.mark.parametrize(
    ("parsing", "text"),
    [
        (KIMI, "<|tool_call_begin|>functions.now:0<|tool_call_argument_begin|>{0} "),
        (tools(ToolCallParser.MISTRAL), "[TOOL_CALLS]now{0} "),
    ],
)
def test_no_call_begins_where_no_object_does(parsing: Parsing, text: str, arguments: str) -> None:
    said = text.format(arguments)
    assert read(parsing, list(said)) == [Content(said)]


def test_a_word_without_end_is_no_value() -> None:
    said = '<tool_call>{"id": ' + "9" * 5_000 + ', "name": "now"}</tool_call>'
    assert whole(read(HERMES, [said])) == (said, "", ())
    assert whole(read(HERMES, [said.replace("9" * 5_000, "9" * 4_000)]))[2] == (("now", "{}"),)


def test_numbers_beyond_every_float_are_values_in_other_notations_too() -> None:
    assert whole(read(PYTHONIC, ["[add(a=1e999)]"]))[2] == (("add", '{"a": 1e999}'),)
    long = "-0." + "9" * 400
    assert whole(read(PYTHONIC, list(f"[add(a={long})]")))[2] == (("add", f'{{"a": {long}}}'),)
    said = "<tool_call>get_weather\n<arg_key>days</arg_key>\n<arg_value>1e999</arg_value>\n</tool_call>"
    assert whole(read(GLM, [said]))[2] == (("get_weather", '{"days": 1e999}'),)


@pytest.mark.parametrize("value", ["1e5x", "Nothing", "--1", "nan", r"'\uzzzz'", r"'\UFFFFFFFF'", r"'\x4'"])
def test_a_word_that_is_no_value_makes_no_call(value: str) -> None:
    said = f"[add(a={value})]"
    assert whole(read(PYTHONIC, [said])) == (said, "", ())


def test_a_name_that_does_not_end_is_shown_before_the_answer_ends() -> None:
    reader = AnswerReader(KIMI, lambda: "call_1")
    said = "<|tool_call_begin|>" + "x" * (MAX_NAME_CHARS - 1)
    assert reader.feed(said) == []
    assert "".join(event.text for event in reader.feed("x" * 100) if isinstance(event, Content)) == said + "x" * 100


@pytest.mark.parametrize(
    "begun", ["<tool_call>", "<tool_call>f<arg_key>a</arg_key><arg_value>1</arg_value>"], ids=["a name", "between"]
)
def test_what_does_not_end_in_another_notation_is_shown_too(begun: str) -> None:
    reader = AnswerReader(GLM, lambda: "call_1")
    events = [*reader.feed(begun), *reader.feed("x" * (MAX_NAME_CHARS + 100))]
    assert any(isinstance(event, Content | CallBroken) for event in events)


def test_arguments_in_another_notation_come_as_they_are_written_too() -> None:
    reader = AnswerReader(PYTHONIC, lambda: "call_1")
    assert reader.feed("[get_weather(") == [CallBegin(0, "call_1", "get_weather")]
    assert reader.feed("city='Par") == [CallArguments(0, '{"city": "Par')]
    assert reader.feed("is', days=3") == [CallArguments(0, 'is", "days": ')]
    assert reader.feed(")") == [CallArguments(0, "3}"), CallEnd(0)]
    reader = AnswerReader(GLM, lambda: "call_1")
    reader.feed("<tool_call>get_weather<arg_key>city</arg_key><arg_value>Par")
    assert reader.feed("is</arg") == [CallArguments(0, "is")]


def test_a_call_keeps_the_id_that_the_model_gave_it() -> None:
    text = "<|tool_call_begin|>functions.now:3<|tool_call_argument_begin|>{}<|tool_call_end|>"
    assert read(KIMI, [text])[0] == CallBegin(0, "functions.now:3", "now")


def test_values_are_not_nested_without_end() -> None:
    text = "[add(a=" + "[" * 5_000
    assert whole(read(PYTHONIC, [text])) == (text, "", ())


def test_content_is_not_held_back_without_need() -> None:
    reader = AnswerReader(HERMES, lambda: "")
    assert reader.feed("a <b> c") == [Content("a <b> c")]
    assert reader.feed(" x<") == [Content(" x")]
    assert reader.feed("tool") == []
    assert reader.feed("s>") == [Content("<tools>")]


@pytest.mark.parametrize("text", ["<tool_call>", '<tool_call>{"na', '<tool_call>{"name": "sea'])
@pytest.mark.parametrize("demanded", [False, True])
def test_the_cut_beginning_of_a_demanded_call_is_no_text(text: str, demanded: bool) -> None:
    assert HERMES.calls is not None
    calls = changed(HERMES.calls, demanded=demanded)
    events = read(Parsing(calls=calls), [text], cut=True)
    assert events == ([] if demanded else [Content(text)])


@pytest.mark.parametrize("parsing", [HERMES, LLAMA3])
def test_a_call_that_the_limit_cuts_stays_a_call(parsing: Parsing) -> None:
    mark = "<tool_call>" if parsing is HERMES else ""
    events = read(parsing, [mark + '{"name": "search", "parameters": {"q": "a long'], cut=True)
    assert events == [CallBegin(0, "call_0", "search"), CallArguments(0, '{"q": "a long')]


def test_at_most_one_call_comes_back_where_only_one_may() -> None:
    parsing = tools(ToolCallParser.HERMES, several=False)
    text = '<tool_call>{"name": "now"}</tool_call>\n<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call> ok'
    assert whole(read(parsing, list(text))) == (" ok", "", (("now", "{}"),))
