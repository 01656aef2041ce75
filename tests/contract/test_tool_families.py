"""Every form of thinking and tool calls through gateway, tokenizer and worker; the engine says what the user says."""

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
from conch_llm_worker.dialects.token_deltas import EngineEnd, TokenDelta
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
from testkit.models.golden import FOLDER
from testkit.models.transcripts import TEMPLATE, TOOLS, TRANSCRIPTS, Transcript

SEPARATOR, END = 2039, 2041
VOCABULARY = Vocabulary.from_json((FOLDER / "tokenizer.json").read_bytes())


@pytest.fixture(scope="module")
def tokenizer() -> LimitedTokenizer:
    model = load(FOLDER)
    return LimitedTokenizer(model, ChatRenderer(model), 10_000_000, lambda: None)


def told(tokenizer: LimitedTokenizer, transcript: Transcript) -> GenerateRequest:
    """Return what the worker is told when a client sends the transcript."""
    thinking, calls = transcript.parsing.thinking, transcript.parsing.calls
    body: dict[str, Any] = {"messages": [{"role": "user", "content": transcript.text}]}
    body |= {} if calls is None else {"tools": TOOLS}
    if thinking is not None:
        body |= {"reasoning_effort": "high"} if thinking.opened else {}
        body |= {"include_reasoning": thinking.show}
    profile = ChatProfile(
        reasoning=ReasoningParser.NONE if thinking is None else thinking.parser,
        tool_calls=ToolCallParser.NONE if calls is None else calls.parser,
        takes_tools=True,
    )
    model = route(max_model_len=1024, vocab_size=2048, eos_token_ids=(END,), chat=profile, chat_template=TEMPLATE)
    resolved = CHAT.resolve(json.dumps(body).encode(), snapshot(model))
    answer = prepare_prompts(tokenizer, from_json(PrepareRequest, resolved.preparation))
    job = GenerationJob.of(resolved, to_json(answer), ids=("r", "chatcmpl-1"), created=1)
    return from_json(GenerateRequest, job.message(Engine(grpc=ENGINE), timeout_s=5))


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda transcript: transcript.name)
def test_an_answer_has_the_parts_of_the_transcript(
    tokenizer: LimitedTokenizer, transcript: Transcript, size: int
) -> None:
    request = told(tokenizer, transcript)
    prompt = list(request.prompts[0].ids)
    ids = [*prompt[: prompt.index(SEPARATOR)], END]
    generation, choice = IdGeneration(ChoiceRules.of(request, VOCABULARY), VOCABULARY), ChoiceBody()
    assert request.parsing is not None
    parsed = ParsedGeneration(generation, AnswerReader(request.parsing, call_ids(request.parsing)))
    for start in range(0, len(ids), size):
        end = EngineEnd.STOP if start + size >= len(ids) else None
        choice.add(parsed.feed(TokenDelta(ids[start : start + size], end=end)))
    usage = Usage(prompt_tokens=1, completion_tokens=generation.completion_tokens)
    body = json.loads(complete_body(request, [choice], usage, VOCABULARY))["choices"][0]
    message = body["message"]
    calls = [(call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls", ())]
    found = (message["content"] or "", message["reasoning_content"] or "", tuple(calls))
    assert found == (transcript.content, transcript.reasoning, transcript.calls)
    assert body["finish_reason"] == ("tool_calls" if calls else "stop")
