"""One bias for each id of the vocabulary, as TensorRT-LLM takes what a client asks of single ids."""

import math
from array import array

from conch_contracts.messages.generation import SamplingParameters


def whole_bias(sampling: SamplingParameters, size: int) -> bytes:
    """Return `size` 32-bit floats, which the engine adds to the logits.

    An id that is not allowed gets minus infinity. The ids of a request are below `size`: the gateway has looked.
    """
    allowed = sampling.allowed_token_ids
    biases = array("f", [0.0 if allowed is None else -math.inf]) * size
    for id_ in allowed or ():
        biases[id_] = 0.0
    for id_, bias in sampling.logit_bias.items():
        biases[id_] += bias
    return biases.tobytes()
