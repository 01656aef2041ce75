"""Beam search, as the engines of `fastertransformer` and `tensorrtllm` have it: what it needs of a model; pure.

One call searches with all beams. The last message holds them, the best first, padded to the same length; an output says
how long each is. Searching is not drawing: the seed changes nothing, and `top_k` and `top_p` are not sent.
"""

from conch_contracts.messages.generation import SamplingParameters
from conch_kit.errors import InvalidRequest
from conch_kit.triton.declared_tensors import DeclaredTensors
from conch_kit.triton.errors import MalformedResponse
from conch_kit.triton.tensors import Outputs
from conch_llm_worker.dialects.capability_check import unsupported

BEAM_WIDTH = "beam_width"
LENGTHS = "sequence_length"
_MOST = "max_beam_width"
"""A parameter of TensorRT-LLM's config."""


def check_beams(sampling: SamplingParameters, declared: DeclaredTensors) -> None:
    """Raise `InvalidRequest` for a search that the model cannot make."""
    if sampling.beams is None:
        return
    if BEAM_WIDTH not in declared.datatypes or LENGTHS not in declared.outputs:
        raise unsupported("use_beam_search")
    most = declared.settings.get(_MOST, "")
    if most.isdecimal() and sampling.beams > int(most):
        raise InvalidRequest(
            f"This model's engine searches with at most {most} beams; {sampling.beams} were asked for.",
            param="use_beam_search",
            code="invalid_value",
        )
    if sampling.grammar is not None:
        raise InvalidRequest(
            "This model's engine cannot keep the answers of a beam search to a form.",
            param="use_beam_search",
            code="unsupported_parameter",
        )


def length(out: Outputs, beam: int) -> int | None:
    """Return how long a beam is with its prompt; None where the only one has no length."""
    lengths = out.ints(LENGTHS) if out.has(LENGTHS) else ()
    if beam < len(lengths):
        return lengths[beam]
    if beam > 0:
        raise MalformedResponse(f"Output {LENGTHS} has {len(lengths)} beams, expected {beam + 1} or more.")
    return None


def row(out: Outputs, name: str, beam: int) -> slice:
    """Return where an output has the elements of one beam; raise `MalformedResponse` when it has no such beam."""
    shape = out.shape(name)
    width = shape[-1] if shape else 0
    count = 1
    for size in shape[:-1]:
        count *= size
    if beam >= count:
        raise MalformedResponse(f"Output {name} has {count} beams, expected {beam + 1} or more.")
    return slice(beam * width, (beam + 1) * width)
