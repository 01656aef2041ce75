"""Which parser reads which form of tool calls; each reads the answer to its end."""

from collections.abc import Callable, Mapping

from conch_contracts.messages.answer_parsing import Calls
from conch_contracts.tool_call_marks import ToolCallParser
from conch_llm_worker.parsing.text_buffer import Steps, TextBuffer
from conch_llm_worker.parsing.tool_calls import (
    deepseek,
    glm,
    hermes,
    json_list,
    kimi_k2,
    llama3,
    mistral,
    pythonic,
    qwen3_coder,
)

PARSERS: Mapping[ToolCallParser, Callable[[TextBuffer, Calls], Steps[None]]] = {
    ToolCallParser.HERMES: hermes.hermes,
    ToolCallParser.LLAMA3: llama3.llama3,
    ToolCallParser.MISTRAL: mistral.mistral,
    ToolCallParser.QWEN3_CODER: qwen3_coder.qwen3_coder,
    ToolCallParser.DEEPSEEK: deepseek.deepseek,
    ToolCallParser.GLM: glm.glm,
    ToolCallParser.KIMI_K2: kimi_k2.kimi_k2,
    ToolCallParser.PYTHONIC: pythonic.pythonic,
    ToolCallParser.JSON: json_list.json_list,
}

SPECIAL_MARKS: Mapping[ToolCallParser, frozenset[str]] = {
    ToolCallParser.HERMES: hermes.MARKS,
    ToolCallParser.QWEN3_CODER: qwen3_coder.MARKS,
    ToolCallParser.LLAMA3: llama3.MARKS,
    ToolCallParser.MISTRAL: mistral.MARKS,
    ToolCallParser.DEEPSEEK: deepseek.MARKS,
    ToolCallParser.GLM: glm.MARKS,
    ToolCallParser.KIMI_K2: kimi_k2.MARKS,
    ToolCallParser.PYTHONIC: pythonic.MARKS,
}
"""Tokens that a parser must see although tokenizers may call them special, and special tokens are left out."""
