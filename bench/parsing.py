"""What it costs a worker to take an answer apart: CPU time per token over plain streaming.

One token a message, as engines stream: text is made of it, searched, read and written as frames. No engine, no network.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from bench.options import Effort
from bench.report import Comparison, Goal, Row, Section, Unit
from conch_contracts.messages.answer_parsing import Calls, Parsing, Thinking
from conch_contracts.messages.generation import Api, EngineTarget, GenerateRequest, PreparedPrompt, SamplingParameters
from conch_contracts.names import Digest, EngineAddress
from conch_contracts.records import Dialect
from conch_contracts.thinking_marks import ReasoningParser
from conch_contracts.tool_call_marks import ToolCallParser
from conch_llm_worker.dialects.token_deltas import EngineEnd, TokenDelta
from conch_llm_worker.frames.answer_frames import frames_for
from conch_llm_worker.generation.choice_rules import ChoiceRules
from conch_llm_worker.generation.id_generation import IdGeneration
from conch_llm_worker.generation.parsed_generation import ParsedGeneration
from conch_llm_worker.parsing.answer_reader import AnswerReader
from conch_llm_worker.text.vocabulary import Vocabulary

TOKENIZER = Path(__file__).parents[1] / "examples" / "tiny-chat" / "tokenizer.json"
GOAL = Goal(15.0)
"""What everything together may add to a token, in microseconds."""
LONG = "The weather in Paris is sunny and the capital of France has many cafes. " * 24
THOUGHT = f"<think>\n{LONG[: len(LONG) // 3]}\n</think>\n\n"
SAID = LONG[: len(LONG) // 3]
CALL = f'<tool_call>\n{{"name": "send", "arguments": {{"to": "Ada", "text": "{SAID}"}}}}\n</tool_call>'

GLM_CALL = (
    "<tool_call>send\n<arg_key>to</arg_key>\n<arg_value>Ada</arg_value>\n<arg_key>text</arg_key>\n"
    f"<arg_value>{SAID}</arg_value>\n</tool_call>"
)
PYTHON_CALL = f"[send(to='Ada', text='{SAID}')]"

THINKING = Thinking(parser=ReasoningParser.THINK)
STOPS = ("\n\nUser:", "<|end|>", "END")


def calls(parser: ToolCallParser) -> Calls:
    """Return how calls are read that the texts here hold."""
    return Calls(parser=parser, names=("send", "now"))


CALLS = calls(ToolCallParser.HERMES)
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "stop strings": (LONG, {"stop": STOPS}),
    "thinking looked for, none found": (LONG, {"parsing": Parsing(thinking=THINKING)}),
    "tools offered, none called": (LONG, {"parsing": Parsing(calls=CALLS)}),
    "thinking": (THOUGHT + LONG[: len(LONG) * 2 // 3], {"parsing": Parsing(thinking=THINKING)}),
    "a call in JSON": (CALL, {"parsing": Parsing(calls=CALLS)}),
    "a call in tags": (GLM_CALL, {"parsing": Parsing(calls=calls(ToolCallParser.GLM))}),
    "a call in Python": (PYTHON_CALL, {"parsing": Parsing(calls=calls(ToolCallParser.PYTHONIC))}),
    "all of it in one answer": (
        THOUGHT + LONG[: len(LONG) // 3] + CALL,
        {"parsing": Parsing(thinking=THINKING, calls=CALLS), "stop": STOPS},
    ),
}


def sections(effort: Effort) -> tuple[Section, ...]:
    """Measure every case beside plain streaming."""
    vocabulary = Vocabulary.from_json(TOKENIZER.read_bytes())
    tokenizer = Tokenizer.from_str(TOKENIZER.read_text())

    def cost(text: str, changes: dict[str, Any]) -> float:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        return cost_us(vocabulary, ids, changes, effort.parsing_rounds)

    plain = cost(LONG, {})
    rows = (Row(name, Unit.MICROSECONDS, cost(*case), plain, Comparison.ADDED, GOAL) for name, case in CASES.items())
    return (Section("CPU per token, answers taken apart", "plain text", tuple(rows)),)


def request(**changes: Any) -> GenerateRequest:
    """Return a streamed chat request."""
    fields: dict[str, Any] = {
        "request_id": "r",
        "response_id": "chatcmpl-1",
        "api": Api.CHAT,
        "model": "tiny-chat",
        "created": 1,
        "target": EngineTarget(
            grpc=EngineAddress("127.0.0.1:1"),
            model="m",
            dialect=Dialect.TOKENS,
            tokenizer_digest=Digest("0" * 64),
        ),
        "prompts": (PreparedPrompt(ids=(1,), text="x"),),
        "sampling": SamplingParameters(max_tokens=100_000),
        "stream": True,
    }
    return GenerateRequest(**fields | changes)


def cost_us(vocabulary: Vocabulary, ids: list[int], changes: dict[str, Any], rounds: int) -> float:
    """Return the CPU time of one token, in microseconds: the least of several rounds."""
    asked = request(**changes)
    rules = ChoiceRules.of(asked, vocabulary)
    return (
        min(_round_s(_feed(asked, rules, vocabulary), asked, vocabulary, ids) for _ in range(rounds)) * 1e6 / len(ids)
    )


def _feed(asked: GenerateRequest, rules: ChoiceRules, vocabulary: Vocabulary) -> Callable[[TokenDelta], Any]:
    generation = IdGeneration(rules, vocabulary)
    if asked.parsing is None:
        return generation.feed
    return ParsedGeneration(generation, AnswerReader(asked.parsing, lambda: "call_0")).feed


def _round_s(
    feed: Callable[[TokenDelta], Any], asked: GenerateRequest, vocabulary: Vocabulary, ids: list[int]
) -> float:
    frames = frames_for(asked, vocabulary)
    deltas = [TokenDelta((id_,)) for id_ in ids] + [TokenDelta((), end=EngineEnd.STOP)]
    began = time.process_time()
    for delta in deltas:
        update = feed(delta)
        if update.text or update.entries or update.events or update.finish is not None:
            frames.update(0, update)
    return time.process_time() - began
