"""The `fastertransformer` dialect: typed tensors in, a cumulative buffer of prompt and answer out.

Deployments of this backend differ in what they declare, so inputs are built from the model's own config: only what it
declares is sent, in the type found there. A parameter that the backend cannot obey is refused by name. A decoupled
model sends the whole buffer with every token and once more at the end; one that is not answers once. In a beam search
what comes before the end may still change.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tritonclient.grpc.service_pb2 import ModelInferResponse

from conch_contracts.messages.generation import GenerateRequest, SamplingParameters
from conch_kit.errors import InvalidRequest
from conch_kit.triton.declared_tensors import DeclaredTensors
from conch_kit.triton.errors import MalformedResponse
from conch_kit.triton.tensors import Outputs, add_input, is_final, new_request
from conch_llm_worker.dialects.answer_sizes import of_buffer
from conch_llm_worker.dialects.beams import BEAM_WIDTH, check_beams, length, row
from conch_llm_worker.dialects.capability_check import needs_logprobs, refuse, unsupported
from conch_llm_worker.dialects.engine_call import EngineCall
from conch_llm_worker.dialects.token_deltas import EngineEnd, Logprobs, TokenDelta
from conch_llm_worker.dialects.word_lists import word_list

Value = int | float | bool

REQUIRED = ("input_ids", "input_lengths", "request_output_len")
_UINT64 = 2**64


@dataclass(slots=True)
class _Inputs:
    """Collects scalar inputs and refuses what the model does not declare."""

    declared: DeclaredTensors
    scalars: dict[str, Value] = field(default_factory=dict)

    def offer(self, name: str, value: Value | None) -> None:
        """Send a value where the model declares the input; leave it to the model's own default elsewhere."""
        if value is not None and name in self.declared.datatypes:
            self.scalars[name] = value

    def demand(self, name: str, value: Value, default: Value, param: str) -> None:
        """Send a value that the client asked for; refuse it when the model has no such input."""
        if value == default:
            return
        if name not in self.declared.datatypes:
            raise unsupported(param)
        self.scalars[name] = value


def engine_call(
    request: GenerateRequest, prompt: Sequence[int], sampling: SamplingParameters, declared: DeclaredTensors
) -> EngineCall:
    """Return the engine call for one choice; raise `InvalidRequest` for what the engine cannot do."""
    refuse(request, sampling)
    inputs = _Inputs(declared)
    check_beams(sampling, declared)
    _sampling(inputs, request, sampling)
    _backend(inputs, request, sampling)
    message = new_request(request.target.model, request.request_id)
    lead = [1] if declared.batched else []
    types = declared.datatypes
    for name in REQUIRED:
        if name not in types:
            raise MalformedResponse(f"The model declares no input {name}; it is no fastertransformer model.")
    add_input(message, "input_ids", types["input_ids"], [*lead, len(prompt)], prompt)
    add_input(message, "input_lengths", types["input_lengths"], [*lead, 1], [len(prompt)])
    add_input(message, "request_output_len", types["request_output_len"], [*lead, 1], [sampling.max_tokens])
    for name, value in inputs.scalars.items():
        add_input(message, name, types[name], [*lead, 1], [value])
    stops_sent = "stop_words_list" in types and sampling.min_tokens == 0  # `min_length` holds back the end id only
    stops = (*request.backend.stop_words, *((id_,) for id_ in sampling.stop_token_ids)) if stops_sent else ()
    for name, words in (("stop_words_list", stops), ("bad_words_list", sampling.bad_words)):
        if words and name in types:
            rows = word_list(words)
            add_input(message, name, types[name], [*lead, 2, len(rows) // 2], rows)
    size, limit = len(prompt), sampling.max_tokens
    beams = range(sampling.beams or 0)
    return EngineCall(
        message,
        BufferReader(size, limit, decoupled=declared.decoupled),
        streamed=declared.decoupled,
        most_bytes=of_buffer(size, sampling),
        beam_readers=tuple(BufferReader(size, limit, decoupled=False, beam=beam) for beam in beams),
        stop_words_sent=stops_sent,
    )


def _sampling(inputs: _Inputs, request: GenerateRequest, sampling: SamplingParameters) -> None:
    if sampling.repetition_penalty != 1 and sampling.presence_penalty != 0:
        raise InvalidRequest(
            "This model's engine takes either 'repetition_penalty' or 'presence_penalty', not both.",
            param="presence_penalty",
            code="unsupported_parameter",
        )
    if sampling.bad_words and "bad_words_list" not in inputs.declared.datatypes:
        raise unsupported(request.bad_words_param)
    if sampling.beams is None:
        _drawing(inputs, sampling)
    else:
        _beams(inputs, sampling, sampling.beams)
    inputs.demand("presence_penalty", sampling.presence_penalty, 0.0, "presence_penalty")
    if sampling.presence_penalty == 0:
        inputs.offer("repetition_penalty", sampling.repetition_penalty)
    inputs.demand("repetition_penalty", sampling.repetition_penalty, 1.0, "repetition_penalty")
    inputs.demand("min_length", sampling.min_tokens, 0, "min_tokens")


def _drawing(inputs: _Inputs, sampling: SamplingParameters) -> None:
    greedy = sampling.temperature == 0
    inputs.offer("temperature", 1.0 if greedy else sampling.temperature)
    inputs.offer("runtime_top_k", 1 if greedy else sampling.top_k)
    inputs.offer("runtime_top_p", 0.0 if greedy else sampling.top_p)
    if not greedy:
        inputs.demand("temperature", sampling.temperature, 1.0, "temperature")
        inputs.demand("runtime_top_k", sampling.top_k, 0, "top_k")
        inputs.demand("runtime_top_p", sampling.top_p, 1.0, "top_p")


def _beams(inputs: _Inputs, sampling: SamplingParameters, beams: int) -> None:
    inputs.offer(BEAM_WIDTH, beams)
    if beams == 1:  # the engine would draw with one beam; to search with one is to be greedy
        inputs.offer("runtime_top_k", 1)
        inputs.offer("runtime_top_p", 0.0)
    temperature = sampling.temperature or 1.0
    inputs.offer("temperature", temperature)
    inputs.demand("temperature", temperature, 1.0, "temperature")
    inputs.offer("len_penalty", sampling.length_penalty)
    inputs.demand("len_penalty", sampling.length_penalty, 1.0, "length_penalty")


def _backend(inputs: _Inputs, request: GenerateRequest, sampling: SamplingParameters) -> None:
    options = request.backend
    inputs.offer("start_id", _natural(options.start_id))
    inputs.offer("end_id", _natural(options.end_id))
    inputs.offer("mask_positions", options.mask_positions)
    if request.sampling.seed is not None and "random_seed" not in inputs.declared.datatypes:
        raise unsupported("seed")
    inputs.offer("random_seed", None if sampling.seed is None else sampling.seed % _UINT64)
    if needs_logprobs(request):
        param = "logprobs" if request.logprobs else "best_of"
        inputs.demand("is_return_log_probs", True, False, param)  # noqa: FBT003 - the tensor's values


def _natural(value: int | None) -> int | None:
    return None if value is None or value < 0 else value


class BufferReader:
    """Reads the buffer of one request or beam: what is new in it since the last message."""

    __slots__ = ("_beam", "_decoupled", "_known", "_max_tokens", "_prompt")

    def __init__(self, prompt_tokens: int, max_tokens: int, *, decoupled: bool, beam: int = 0) -> None:
        self._beam = beam
        self._prompt = self._known = prompt_tokens
        self._max_tokens = max_tokens
        self._decoupled = decoupled

    def read(self, response: ModelInferResponse) -> TokenDelta:
        """Return the ids since the last message; none in the repeated last one."""
        out = Outputs(response)
        final = not self._decoupled or is_final(response)
        if not out.has("output_ids"):
            if not final:
                raise MalformedResponse("An answer without output_ids.")
            return TokenDelta((), end=self._end())
        buffer = out.ints("output_ids")[row(out, "output_ids", self._beam)]
        end = length(out, self._beam) or 0
        if not self._prompt <= end <= len(buffer):
            raise MalformedResponse(
                f"sequence_length is {end} with a prompt of {self._prompt} and a buffer of {len(buffer)}."
            )
        known, self._known = self._known, max(end, self._known)
        logprobs = self._logprobs(out, known, len(buffer))
        return TokenDelta(buffer[known:end], logprobs, end=self._end() if final else None)

    def _logprobs(self, out: Outputs, known: int, width: int) -> Logprobs | None:
        """Return the new tokens' log probabilities; some versions count them from the prompt on, some after it."""
        if not out.has("output_log_probs"):
            return None
        values = out.floats("output_log_probs")[row(out, "output_log_probs", self._beam)]
        base = 0 if len(values) == width else self._prompt
        new = values[known - base : self._known - base]
        if len(new) != self._known - known:
            raise MalformedResponse(f"output_log_probs has {len(values)} values, too few for the new tokens.")
        return Logprobs(new, (), ())

    def _end(self) -> EngineEnd:
        full = self._known - self._prompt >= self._max_tokens
        return EngineEnd.LENGTH if full else EngineEnd.UNKNOWN
