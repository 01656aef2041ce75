"""The `tokens` dialect (`conch_contracts.dialects.tokens`): ids and JSON parameters in, ids out."""

from collections.abc import Sequence
from typing import TypeVar

from tritonclient.grpc.service_pb2 import ModelInferResponse

from conch_contracts.dialects import tokens as wire
from conch_contracts.messages.generation import GenerateRequest, PreparedPrompt, SamplingParameters
from conch_contracts.messages.message import to_json
from conch_kit.triton.errors import MalformedResponse
from conch_kit.triton.picture_tensors import picture_tensors
from conch_kit.triton.tensors import Outputs, add_input, add_raw, new_request
from conch_llm_worker.dialects.answer_sizes import of_tokens
from conch_llm_worker.dialects.capability_check import refuse
from conch_llm_worker.dialects.engine_call import EngineCall
from conch_llm_worker.dialects.token_deltas import EngineEnd, Logprobs, TokenDelta

T = TypeVar("T")

_ENDS = {
    wire.FINISH_STOP: EngineEnd.STOP,
    wire.FINISH_LENGTH: EngineEnd.LENGTH,
    wire.FINISH_CANCELLED: EngineEnd.CANCELLED,
}


def engine_call(request: GenerateRequest, prompt: PreparedPrompt, sampling: SamplingParameters) -> EngineCall:
    """Return the engine call for one choice; raise `InvalidRequest` for what the engine cannot do."""
    refuse(request, sampling)
    message = new_request(request.target.model, request.request_id)
    add_input(message, wire.INPUT_IDS, "INT32", [len(prompt.ids)], prompt.ids)
    add_input(message, wire.PARAMETERS, "BYTES", [1], [to_json(sampling)])
    if prompt.pictures:
        for tensor in picture_tensors(prompt.pictures):
            add_raw(message, *tensor)
    return EngineCall(message, TokensReader(), streamed=True, most_bytes=of_tokens(len(prompt.ids), sampling))


class TokensReader:
    """Reads one stream; nothing has to be remembered between its messages."""

    __slots__ = ()

    def read(self, response: ModelInferResponse) -> TokenDelta:
        """Return what a message brought."""
        out = Outputs(response)
        ids = out.ints(wire.TOKEN_IDS) if out.has(wire.TOKEN_IDS) else ()
        if not out.has(wire.FINISH_REASON) and not out.has(wire.LOGPROBS) and not out.has(wire.PROMPT_LOGPROBS):
            return TokenDelta(ids)
        end, stop_token_id = _end(out)
        logprobs = _logprobs(out, wire.LOGPROBS, wire.TOP_IDS, wire.TOP_LOGPROBS)
        if logprobs is not None and len(logprobs.chosen) != len(ids):
            raise MalformedResponse(f"{wire.LOGPROBS} has {len(logprobs.chosen)} values for {len(ids)} tokens.")
        prompt = _logprobs(out, wire.PROMPT_LOGPROBS, wire.PROMPT_TOP_IDS, wire.PROMPT_TOP_LOGPROBS)
        if prompt is not None and out.has(wire.PROMPT_RANKS):
            prompt = prompt._replace(ranks=_ranks(out, len(prompt.chosen)))
        return TokenDelta(ids, logprobs, prompt, end, stop_token_id)


def _end(out: Outputs) -> tuple[EngineEnd | None, int | None]:
    if not out.has(wire.FINISH_REASON):
        return None, None
    reason = b"".join(out.texts(wire.FINISH_REASON)).decode("utf-8", "replace")
    if reason not in _ENDS:
        raise MalformedResponse(f"{wire.FINISH_REASON} is {reason!r}, expected one of {sorted(_ENDS)}.")
    (stop,) = (out.ints(wire.STOP_TOKEN_ID) if out.has(wire.STOP_TOKEN_ID) else ()) or (-1,)
    return _ENDS[reason], stop if stop >= 0 else None


def _logprobs(out: Outputs, chosen: str, top_ids: str, top: str) -> Logprobs | None:
    if not out.has(chosen):
        return None
    values = out.floats(chosen)
    if not values or not out.has(top_ids) or not out.has(top):
        return Logprobs(values, (), ())
    return Logprobs(values, _rows(out.ints(top_ids), len(values)), _rows(out.floats(top), len(values)))


def _ranks(out: Outputs, count: int) -> Sequence[int]:
    ranks = out.ints(wire.PROMPT_RANKS)
    if len(ranks) != count:
        raise MalformedResponse(f"{wire.PROMPT_RANKS} has {len(ranks)} values for {count} tokens.")
    return ranks


def _rows(flat: Sequence[T], count: int) -> Sequence[Sequence[T]]:
    width, rest = divmod(len(flat), count)
    if rest:
        raise MalformedResponse(f"{len(flat)} alternatives do not fill {count} rows.")
    return [flat[at : at + width] for at in range(0, len(flat), width)] if width else ()
