"""How long one message of an engine's answer may be; pure.

Engines may be other people's, and numbers take ten times their bytes once they are unpacked. So a call says how much
its request can bring, and a longer message is refused before it has been received. How an engine groups its tokens is
its own affair: all of an answer may come at once, but for what names many alternatives to each token.
"""

from conch_contracts.messages.generation import SamplingParameters
from conch_kit.triton.message_limits import MAX_CONTROL_BYTES, MAX_MESSAGE_BYTES

FREE_BYTES = 256 * 1024
"""For what does not grow with an answer, and outputs that nobody asked for: unpacking as much takes 3 ms."""
FREE_TEXT_BYTES = 64 * 1024
"""The same of texts, which take longer: they are counted, and searched for stop strings."""
_TOKEN_BYTES = 16
"""An id and its log probability, each in the widest type."""
_TEXT_BYTES = 256
"""Of a token; the longest that vocabularies have are runs of spaces."""
_JSON_BYTES = 256
"""Of one alternative in vLLM's JSON: an object with its text, rank and log probability."""
_MOST_JSON_BYTES = 4 * MAX_CONTROL_BYTES


def of_tokens(prompt_tokens: int, sampling: SamplingParameters) -> int:
    """Return the limit, in bytes, of ids with their log probabilities; the prompt's come together in one message."""
    alternatives = max(sampling.logprobs or 0, len(sampling.logprob_token_ids))
    size = sampling.max_tokens * _TOKEN_BYTES
    size += min(size * alternatives, MAX_CONTROL_BYTES)
    if sampling.prompt_logprobs is not None:
        size += prompt_tokens * _TOKEN_BYTES * (2 + sampling.prompt_logprobs)
    return min(FREE_BYTES + size, MAX_MESSAGE_BYTES)


def of_buffer(prompt_tokens: int, sampling: SamplingParameters) -> int:
    """Return the limit, in bytes, of the ids of all beams, each with the prompt before it and room behind it."""
    beam = FREE_BYTES + (prompt_tokens + sampling.max_tokens) * _TOKEN_BYTES
    return min((sampling.beams or 1) * beam, MAX_MESSAGE_BYTES)


def of_text(prompt: str, sampling: SamplingParameters) -> int:
    """Return the limit, in bytes, of text, which may be the prompt and all of the answer."""
    answer = min(sampling.max_tokens * _TEXT_BYTES, MAX_CONTROL_BYTES)
    return min(FREE_TEXT_BYTES + len(prompt.encode()) + answer, MAX_MESSAGE_BYTES)


def of_json(prompt: str, sampling: SamplingParameters) -> int:
    """Return the limit, in bytes, of text with its log probabilities as JSON, which takes 24 times its bytes."""
    size = sampling.max_tokens * _JSON_BYTES * (2 + (sampling.logprobs or 0))
    return min(of_text(prompt, sampling) + size, _MOST_JSON_BYTES)
