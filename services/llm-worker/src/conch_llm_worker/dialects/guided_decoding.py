"""A `Grammar` as engines take it that compile grammars themselves; pure.

The `vllm` dialect sends `vllm_guidance` in its sampling parameters, as `guided_decoding` (JSON in a text) or in newer
versions as `structured_outputs`; `tensorrtllm` sends the two texts of `tensorrtllm_guide` in the tensors
`guided_decoding_guide_type` and `guided_decoding_guide`. The `tokens` dialect sends a grammar as it is.
"""

import json
import re
from typing import NamedTuple, assert_never

from conch_contracts.messages.grammar import Grammar, GrammarKind
from conch_kit.errors import InvalidRequest


class Guide(NamedTuple):
    """The values of TensorRT-LLM's two tensors."""

    type: str
    guide: str | None
    """None: the tensor is not sent."""


def vllm_guidance(grammar: Grammar) -> dict[str, object]:
    """Return the fields of vLLM's `GuidedDecodingParams` or `StructuredOutputsParams`."""
    fields = _vllm_fields(grammar)
    return fields if grammar.whitespace is None else {**fields, "whitespace_pattern": grammar.whitespace}


def tensorrtllm_guide(grammar: Grammar, param: str) -> Guide:
    """Return TensorRT-LLM's guide; raises InvalidRequest for what it has no word for.

    `param` is what the client calls the grammar. The Triton backend ignores a guide of a type that it does not know.
    """
    if grammar.whitespace is not None:
        raise _refusal(
            _whitespace_param(grammar.whitespace, param), "does not let a request choose the white space of JSON"
        )
    match grammar.kind:
        case GrammarKind.JSON_SCHEMA:
            return Guide("json_schema", grammar.definition)
        case GrammarKind.JSON_OBJECT:
            return Guide("json_schema", '{"type":"object"}')
        case GrammarKind.REGEX:
            return Guide("regex", grammar.definition)
        case GrammarKind.CHOICE:
            return Guide("regex", "|".join(f"({re.escape(choice)})" for choice in json.loads(grammar.definition)))
        case GrammarKind.GRAMMAR:
            if "::=" not in grammar.definition:
                raise _refusal(param, "takes grammars in EBNF only")
            return Guide("ebnf_grammar", grammar.definition)
        case GrammarKind.STRUCTURAL_TAG:
            raise _refusal(param, "takes no structural tags, which this needs")
        case _:
            assert_never(grammar.kind)


def _vllm_fields(grammar: Grammar) -> dict[str, object]:
    match grammar.kind:
        case GrammarKind.JSON_SCHEMA:
            return {"json": json.loads(grammar.definition)}
        case GrammarKind.JSON_OBJECT:
            return {"json_object": True}
        case GrammarKind.CHOICE:
            return {"choice": json.loads(grammar.definition)}
        case GrammarKind.REGEX | GrammarKind.GRAMMAR | GrammarKind.STRUCTURAL_TAG:
            return {grammar.kind.value: grammar.definition}
        case _:
            assert_never(grammar.kind)


def _whitespace_param(pattern: str, grammar_param: str) -> str:
    if not grammar_param.startswith("structured_outputs."):
        return "guided_whitespace_pattern"
    return "structured_outputs." + ("whitespace_pattern" if pattern else "disable_any_whitespace")


def _refusal(param: str, reason: str) -> InvalidRequest:
    return InvalidRequest(f"This model's engine {reason}.", param=param, code="unsupported_parameter")
