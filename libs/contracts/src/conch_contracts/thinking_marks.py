"""The marks in which models think, by the parser that knows them.

The operator finds a model's parser in its chat template or is told it; the gateway asks for the ids of the marks, and
the worker looks for the marks in the answer.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple


class ReasoningParser(StrEnum):
    """How a model marks its thinking."""

    NONE = "none"
    THINK = "think"
    """`<think>…</think>` at the beginning of the answer: Qwen 3, GLM 4.5, SmolLM 3 and most others."""
    DEEPSEEK_R1 = "deepseek-r1"
    """The same marks, and the model always thinks: what it writes is thinking until `</think>`."""
    MISTRAL = "mistral"
    """`[THINK]…[/THINK]`: Magistral."""
    SEED = "seed"
    """`<seed:think>…</seed:think>`: Seed-OSS."""
    GRANITE = "granite"
    """`Here is my thought process: … Here is my response:`: Granite 3.2."""


class ThinkingMarks(NamedTuple):
    """What stands around a model's thinking."""

    start: str
    end: str
    implied: bool = False
    """Whether an answer is thinking from its beginning, even without the mark."""


THINKING_MARKS: Mapping[ReasoningParser, ThinkingMarks] = MappingProxyType(
    {
        ReasoningParser.THINK: ThinkingMarks("<think>", "</think>"),
        ReasoningParser.DEEPSEEK_R1: ThinkingMarks("<think>", "</think>", implied=True),
        ReasoningParser.MISTRAL: ThinkingMarks("[THINK]", "[/THINK]"),
        ReasoningParser.SEED: ThinkingMarks("<seed:think>", "</seed:think>"),
        ReasoningParser.GRANITE: ThinkingMarks("Here is my thought process:", "Here is my response:"),
    }
)
