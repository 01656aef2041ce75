"""The marks in which models write calls of tools.

The gateway's grammars demand them and the worker's parsers look for them. Each set is that of the models' own chat
templates; `ToolCallParser` says which models write which.
"""

from typing import Final

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
