"""Which items the updates of an answer become."""

from conch_contracts.messages.generation import Api
from conch_llm_worker.generation.choice_update import ChoiceUpdate, TokenEntry
from conch_llm_worker.parsing.answer_events import CallArguments, CallBegin, CallEnd, Reasoning
from conch_llm_worker.responses.item_sequence import Output
from testkit.builders.generate_requests import generate_request
from testkit.models.transcripts import THINKING_HERMES
from testkit.models.vocabularies import byte_level

ENTRIES = (TokenEntry(0, 97, -0.5, (), ()),)


def test_log_probabilities_of_thoughts_and_calls_begin_no_text() -> None:
    output = Output(generate_request(api=Api.RESPONSES, parsing=THINKING_HERMES, logprobs=True), byte_level())
    call = [CallBegin(0, "c", "now"), CallArguments(0, "{}"), CallEnd(0)]
    for events in ([Reasoning("so")], [], [Reasoning(" be it")], [], call, []):
        output.add(ChoiceUpdate("", ENTRIES, events=events))
    output.end("completed")
    assert [item["type"] for item in output.items] == ["reasoning", "function_call"]  # type: ignore[index,call-overload]
    assert output.items[0]["content"][0]["text"] == "so be it"  # type: ignore[index,call-overload]
