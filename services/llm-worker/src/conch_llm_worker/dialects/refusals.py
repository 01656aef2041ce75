"""What an engine cannot do is refused by name, never left out in silence."""

from conch_contracts.generation import GenerateRequest
from conch_kit.errors import InvalidRequest


def unsupported(param: str) -> InvalidRequest:
    """Return the refusal of a parameter that this engine cannot obey."""
    return InvalidRequest(f"This model's engine does not support '{param}'.", param=param, code="unsupported_parameter")


def refuse_extras(request: GenerateRequest) -> None:
    """Refuse what only some engines have: a beam search, and arguments of their own."""
    if request.sampling.beams is not None:
        raise unsupported("use_beam_search")
    if request.backend.extra_arguments:
        raise unsupported("vllm_xargs")
    if request.backend.kv_transfer is not None:
        raise unsupported("kv_transfer_params")
