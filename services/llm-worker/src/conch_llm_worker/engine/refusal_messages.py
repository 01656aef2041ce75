"""Recognises the messages by which engines refuse what a client can change in its request; pure.

The engines write them in their own words, as the error of a call; `api_errors` asks here first.
"""

import re
from typing import NamedTuple

from conch_kit.errors import InvalidRequest


class ParameterNames(NamedTuple):
    """What the client calls parts of its request."""

    prompt: str = "prompt"
    grammar: str | None = None
    """None: it asked for no form of the answer."""


UNNAMED = ParameterNames()

_UNKEPT = re.compile(
    # vLLM, in `vllm.v1.structured_output`
    r"Failed to transform (?:regex|choices|json schema) into a grammar|not supported by xgrammar|Grammar error: "
    r"|Invalid (?:JSON grammar|grammar|structural tag) specification|structured_outputs\.regex must not"
    # xgrammar itself, as TensorRT-LLM passes it on
    r"|/cpp/(?:\w*regex_converter|json_schema_converter\w*|grammar_parser|structural_tag|grammar_functor|fsm\w*)\.cc:"
    r"|Regex parsing error at position|EBNF (?:parser|lexer|parse) error at line"
)
"""Of a grammar that the engine's own compiler of grammars cannot obey."""

_NO_FORMS = re.compile(r"GuidedDecoder is not setup|is not supported by the (?:xgrammar|llguidance) backend")
"""Of any grammar, or of this kind of it."""

_LONG_PROMPTS = (
    re.compile(r"Prompt length \((\d+)\) exceeds maximum input length \((\d+)\)"),
    re.compile(
        r"sum of prompt length \((\d+)[\d.]*\), query length \(\d+\) should not exceed max_num_tokens \((\d+)\)"
    ),
    re.compile(r"prompt \(length (\d+)\) is longer than the maximum model length of (\d+)"),  # vLLM's
)
"""Each finds the tokens of a prompt, and how many the engine takes."""
_LONG_REQUEST = re.compile(r"Request sequence length is potentially greater than max input length")
_UNKNOWN_PICTURES = re.compile(r"unexpected inference input 'image_|expected \d+ inputs but got \d+ .*'image_pixels'")
"""Triton's, of a model that declares no inputs for pictures."""
_MANY_BEAMS = re.compile(r"Requested beam width (\d+) is larger than configured max beam width (\d+)")


def refusal_of(message: str, names: ParameterNames) -> InvalidRequest | None:
    """Return the refusal that an engine's message stands for; None where the client can change nothing."""
    if names.grammar is not None and _UNKEPT.search(message):
        return _wrong(names.grammar, "the model's engine cannot keep an answer to it")
    if names.grammar is not None and _NO_FORMS.search(message):
        return InvalidRequest(
            f"This model's engine cannot obey '{names.grammar}': it is not set up to keep answers to such a form.",
            param=names.grammar,
            code="unsupported_parameter",
        )
    for long_prompt in _LONG_PROMPTS:
        if found := long_prompt.search(message):
            return _too_long(
                f"The prompt has {found[1]} tokens, and this model's engine takes at most {found[2]}.", names.prompt
            )
    if _LONG_REQUEST.search(message):
        return _too_long("This model's engine has no room for so long a prompt and so many new tokens.", "max_tokens")
    if _UNKNOWN_PICTURES.search(message):
        return InvalidRequest(
            f"This model's engine takes no pictures, and '{names.prompt}' has one.",
            param=names.prompt,
            code="unsupported_parameter",
        )
    if found := _MANY_BEAMS.search(message):
        return _wrong("use_beam_search", f"the engine searches with at most {found[2]} beams, not {found[1]}")
    return None


def _wrong(param: str, reason: str) -> InvalidRequest:
    return InvalidRequest(f"Invalid value for '{param}': {reason}.", param=param, code="invalid_value")


def _too_long(message: str, param: str) -> InvalidRequest:
    return InvalidRequest(message, param=param, code="context_length_exceeded")
