"""How the text of an answer is taken apart: which part is thinking, and which part calls tools.

Models are trained to write both in forms of their own. The operator finds the forms in the model's chat template or is
told them; the gateway sends a worker those that matter for a request, and a request that needs none sends nothing.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from pydantic import Field

from conch_contracts.messages.message import Message


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


class ToolCallParser(StrEnum):
    """How a model writes its calls of tools."""

    NONE = "none"
    HERMES = "hermes"
    """`<tool_call>{"name": …, "arguments": {…}}</tool_call>`: Hermes, Qwen 2.5 and 3."""
    LLAMA3 = "llama3"
    """`{"name": …, "parameters": {…}}`, alone or behind `<|python_tag|>`: Llama 3.1 to 3.3."""
    MISTRAL = "mistral"
    """`[TOOL_CALLS]` and a list of calls, or a name and its arguments."""
    QWEN3_CODER = "qwen3-coder"
    """`<tool_call><function=…><parameter=…>…</parameter></function></tool_call>`: Qwen 3 Coder and its likes."""
    DEEPSEEK = "deepseek"
    """The tokens `<｜tool▁call▁begin｜>` and so on: DeepSeek V3, R1 and V3.1."""
    GLM = "glm"
    """`<tool_call>name<arg_key>…</arg_key><arg_value>…</arg_value></tool_call>`: GLM since 4.5."""
    KIMI_K2 = "kimi-k2"
    """The tokens `<|tool_call_begin|>` and so on, around an id such as `functions.name:0`: Kimi K2."""
    PYTHONIC = "pythonic"
    """`[name(key='value'), …]`: Llama 4 and the small Llama 3.2 with a template for it, ToolACE."""
    JSON = "json"
    """`[{"name": …, "parameters": {…}}, …]` and nothing else: xLAM, and any model that a grammar makes call tools."""


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


class Thinking(Message):
    """What is to be done with an answer's thinking."""

    parser: ReasoningParser
    opened: bool = False
    """Whether the prompt ends inside the thinking, so that the answer begins there."""
    show: bool = True
    """Whether the client gets to see it; it is counted in any case."""


class Calls(Message):
    """What is to be done with an answer's calls of tools."""

    parser: ToolCallParser
    names: tuple[str, ...]
    """The tools that were offered."""
    several: bool = True
    """Whether more than one call may come back."""
    demanded: bool = False
    """Whether the engine is made to call, so that there is no text beside the calls."""
    typed_parameters: dict[str, dict[str, str]] = Field(default_factory=dict)
    """For forms that write values without quotes: tool to parameter to its type in JSON Schema."""


class Parsing(Message):
    """How the answer to one chat request is taken apart."""

    thinking: Thinking | None = None
    calls: Calls | None = None
