"""Gateway, tokenizer and worker agree on tools and thinking; what tiny-chat really wrote stands for the engine."""

import json
from typing import Any

import pytest

from conch_contracts.messages.generation import GenerateRequest, Usage
from conch_contracts.messages.message import from_json, to_json
from conch_contracts.messages.tokenization import PrepareRequest
from conch_contracts.records import ChatProfile, Engine
from conch_contracts.thinking_marks import ReasoningParser
from conch_contracts.tool_call_marks import ToolCallParser
from conch_gateway.generation.endpoints import CHAT
from conch_gateway.generation.job import GenerationJob
from conch_llm_worker.bodies.complete_body import ChoiceBody, complete_body
from conch_llm_worker.dialects.token_deltas import TokenDelta
from conch_llm_worker.generation.choice_rules import ChoiceRules
from conch_llm_worker.generation.id_generation import IdGeneration
from conch_llm_worker.generation.parsed_generation import ParsedGeneration
from conch_llm_worker.parsing.answer_reader import AnswerReader
from conch_llm_worker.parsing.tool_calls.call_ids import call_ids
from conch_llm_worker.text.vocabulary import Vocabulary
from conch_tokenizer.text.chat_template import ChatRenderer
from conch_tokenizer.text.limited_tokenizer import LimitedTokenizer
from conch_tokenizer.text.model_tokenizer import load
from conch_tokenizer.text.prompts import prepare_prompts
from testkit.gateway.fakes import ENGINE, route, snapshot
from testkit.models.golden import FOLDER, Item, load_golden

GOLDEN = load_golden()
PROFILE = ChatProfile(reasoning=ReasoningParser.THINK, tool_calls=ToolCallParser.HERMES, takes_tools=True)
MODEL = route(max_model_len=1024, vocab_size=2048, eos_token_ids=(2041, 2039), chat=PROFILE)
VOCABULARY = Vocabulary.from_json((FOLDER / "tokenizer.json").read_bytes())


@pytest.fixture(scope="module")
def tokenizer() -> LimitedTokenizer:
    model = load(FOLDER)
    return LimitedTokenizer(model, ChatRenderer(model), 10_000_000, lambda: None)


def told(tokenizer: LimitedTokenizer, item: Item, **fields: Any) -> GenerateRequest:
    """Return what the worker is told when a client asks for this item."""
    body = {"messages": item.messages, "tools": item.tools, "temperature": 0, **fields}
    resolved = CHAT.resolve(json.dumps(body).encode(), snapshot(MODEL))
    answer = prepare_prompts(tokenizer, from_json(PrepareRequest, resolved.preparation))
    job = GenerationJob.of(resolved, to_json(answer), ids=("r", "chatcmpl-1"), created=1)
    return from_json(GenerateRequest, job.message(Engine(grpc=ENGINE), timeout_s=5))


def answered(request: GenerateRequest, item: Item) -> tuple[Any, int]:
    """Return the choice that the worker makes of the recorded tokens, and how many of them are thinking."""
    generation, choice = IdGeneration(ChoiceRules.of(request, VOCABULARY), VOCABULARY), ChoiceBody()
    assert request.parsing is not None
    parsed = ParsedGeneration(generation, AnswerReader(request.parsing, call_ids(request.parsing)))
    for token_id in item.output_ids:
        choice.add(parsed.feed(TokenDelta((token_id,))))
    usage = Usage(prompt_tokens=1, completion_tokens=generation.completion_tokens)
    body = json.loads(complete_body(request, [choice], usage, VOCABULARY))
    assert generation.completion_tokens == len(item.output_ids)
    return body["choices"][0], parsed.reasoning_tokens


@pytest.mark.parametrize("name", ["tool", "tool-2", "tool-parallel", "tool-result", "tool-not-needed"])
def test_the_prompt_is_the_recorded_one_and_the_answer_has_its_calls(tokenizer: LimitedTokenizer, name: str) -> None:
    item = GOLDEN.named(name)
    request = told(tokenizer, item)
    assert list(request.prompts[0].ids) == item.prompt_ids
    choice, _ = answered(request, item)
    message = choice["message"]
    calls = [json.loads(part.split("</tool_call>")[0]) for part in item.text.split("<tool_call>")[1:]]
    found = [call["function"] for call in message.get("tool_calls", ())]
    assert [(call["name"], json.loads(call["arguments"])) for call in found] == [
        (call["name"], call["arguments"]) for call in calls
    ]
    assert message["content"] == (None if calls else item.text)
    assert choice["finish_reason"] == ("tool_calls" if calls else "stop")


def test_thinking_is_switched_on_read_counted_and_bounded(tokenizer: LimitedTokenizer) -> None:
    item = GOLDEN.named("think")
    request = told(tokenizer, item, reasoning_effort="high", thinking_token_budget=5)
    assert list(request.prompts[0].ids) == item.prompt_ids
    limit = request.sampling.thinking
    assert limit is not None
    assert (limit.start_id, limit.end_id, limit.opened, limit.tokens) == (2046, 2047, False, 5)
    choice, counted = answered(request, item)
    assert choice["message"]["reasoning_content"] == "The user asks for 5 + 6. Adding gives 11."
    assert choice["message"]["content"] == "5 + 6 = 11"
    assert counted == item.output_ids.index(2047) - item.output_ids.index(2046) - 1


def test_thinking_that_is_switched_off_is_not_looked_for(tokenizer: LimitedTokenizer) -> None:
    item = GOLDEN.named("no-think")
    request = told(tokenizer, item, reasoning_effort="none", tools=None)
    assert list(request.prompts[0].ids) == item.prompt_ids
    assert request.parsing is None


def test_a_demanded_call_reaches_the_engine_as_a_grammar(tokenizer: LimitedTokenizer) -> None:
    request = told(tokenizer, GOLDEN.named("tool"), tool_choice="required")
    assert request.sampling.grammar is not None
    assert "get_weather" in request.sampling.grammar.definition
    assert request.prompts[0].text.endswith("<think>\n\n</think>\n\n")
