"""The forms and marks in which models write calls of tools.

The operator finds a model's form in its chat template or is told it. The gateway's grammars demand the marks and the
worker's parsers look for them; each set is that of the models' own chat templates.
"""

from enum import StrEnum
from typing import Final


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


TOOL_CALL: Final = "<tool_call>"
TOOL_CALL_END: Final = "</tool_call>"
"""Of Hermes, Qwen and GLM."""

PYTHON_TAG: Final = "<|python_tag|>"
"""Of Llama 3."""
PYTHON_START: Final = "<|python_start|>"
PYTHON_END: Final = "<|python_end|>"
"""Of Llama 4."""

MISTRAL_CALLS: Final = "[TOOL_CALLS]"
MISTRAL_ID: Final = "[CALL_ID]"
MISTRAL_ARGUMENTS: Final = "[ARGS]"

FUNCTION: Final = "<function="
FUNCTION_END: Final = "</function>"
PARAMETER: Final = "<parameter="
PARAMETER_END: Final = "</parameter>"
"""Of Qwen 3 Coder; a name and `>` follow the opening ones."""

ARG_KEY: Final = "<arg_key>"
ARG_KEY_END: Final = "</arg_key>"
ARG_VALUE: Final = "<arg_value>"
ARG_VALUE_END: Final = "</arg_value>"
"""Of GLM."""

DEEPSEEK_CALLS: Final = "<｜tool▁calls▁begin｜>"
DEEPSEEK_CALLS_END: Final = "<｜tool▁calls▁end｜>"
DEEPSEEK_CALL: Final = "<｜tool▁call▁begin｜>"
DEEPSEEK_SEPARATOR: Final = "<｜tool▁sep｜>"
DEEPSEEK_CALL_END: Final = "<｜tool▁call▁end｜>"

KIMI_CALLS: Final = "<|tool_calls_section_begin|>"
KIMI_CALLS_END: Final = "<|tool_calls_section_end|>"
KIMI_CALL: Final = "<|tool_call_begin|>"
KIMI_ARGUMENTS: Final = "<|tool_call_argument_begin|>"
KIMI_CALL_END: Final = "<|tool_call_end|>"
