"""What it costs a worker to take an answer apart: CPU time per token over plain streaming.

    .venv/bin/python -m bench.parsing

One token a message, as engines stream: text is made of it, searched, read and written as frames. No engine, no network.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from conch_contracts.generation import (
    Api,
    EngineTarget,
    GenerateRequest,
    PreparedPrompt,
    SamplingParameters,
)
from conch_contracts.names import Digest, EngineAddress
from conch_contracts.parsing import Calls, Parsing, ReasoningParser, Thinking, ToolCallParser
from conch_contracts.records import Dialect
from conch_llm_worker.dialects.deltas import EngineEnd, TokenDelta
from conch_llm_worker.frames import frames_for
from conch_llm_worker.generation import Generation, Rules
from conch_llm_worker.parsing.reader import AnswerReader
from conch_llm_worker.reading import Reading
from conch_llm_worker.vocabulary import Vocabulary

TOKENIZER = Path(__file__).parents[1] / "examples" / "tiny-chat" / "tokenizer.json"
ROUNDS = 25
LONG = "The weather in Paris is sunny and the capital of France has many cafes. " * 24
THOUGHT = f"<think>\n{LONG[: len(LONG) // 3]}\n</think>\n\n"
CALL = (
    f'<tool_call>\n{{"name": "send", "arguments": {{"to": "Ada", "text": "{LONG[: len(LONG) // 3]}"}}}}\n</tool_call>'
)

THINKING = Thinking(parser=ReasoningParser.THINK)
CALLS = Calls(parser=ToolCallParser.HERMES, names=("send", "now"))
STOPS = ("\n\nUser:", "<|end|>", "END")

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": (LONG, {}),
    "stop strings": (LONG, {"stop": STOPS}),
    "thinking looked for, none found": (LONG, {"parsing": Parsing(thinking=THINKING)}),
    "tools offered, none called": (LONG, {"parsing": Parsing(calls=CALLS)}),
    "thinking": (THOUGHT + LONG[: len(LONG) * 2 // 3], {"parsing": Parsing(thinking=THINKING)}),
    "a call": (CALL, {"parsing": Parsing(calls=CALLS)}),
    "thinking, content, a call and stop strings": (
        THOUGHT + LONG[: len(LONG) // 3] + CALL,
        {"parsing": Parsing(thinking=THINKING, calls=CALLS), "stop": STOPS},
    ),
}


def request(**changes: Any) -> GenerateRequest:
    """Return a streamed chat request."""
    fields = {
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


def cost_us(vocabulary: Vocabulary, ids: list[int], changes: dict[str, Any]) -> float:
    """Return the CPU time of one token, in microseconds: the least of several rounds."""
    asked = request(**changes)
    rules = Rules.of(asked, vocabulary)
    return (
        min(_round_s(_feed(asked, rules, vocabulary), asked, vocabulary, ids) for _ in range(ROUNDS)) * 1e6 / len(ids)
    )


def _feed(asked: GenerateRequest, rules: Rules, vocabulary: Vocabulary) -> Callable[[TokenDelta], Any]:
    generation = Generation(rules, vocabulary)
    if asked.parsing is None:
        return generation.feed
    return Reading(generation, AnswerReader(asked.parsing, lambda: "call_0")).feed


def _round_s(
    feed: Callable[[TokenDelta], Any], asked: GenerateRequest, vocabulary: Vocabulary, ids: list[int]
) -> float:
    frames = frames_for(asked, vocabulary)
    deltas = [TokenDelta((id_,)) for id_ in ids] + [TokenDelta((), end=EngineEnd.STOP)]
    began = time.process_time()
    for delta in deltas:
        step = feed(delta)
        if step.text or step.entries or step.events or step.finish is not None:
            frames.step(0, step)
    return time.process_time() - began


def main() -> None:
    """Print one line for each case."""
    vocabulary = Vocabulary.from_json(TOKENIZER.read_bytes())
    tokenizer = Tokenizer.from_str(TOKENIZER.read_text())
    plain = 0.0
    for name, (text, changes) in CASES.items():
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        cost = cost_us(vocabulary, ids, changes)
        plain = plain or cost
        print(f"{name:44} {len(ids):5} tokens  {cost:6.2f} us per token  {cost - plain:+6.2f} us over plain")


if __name__ == "__main__":
    main()
