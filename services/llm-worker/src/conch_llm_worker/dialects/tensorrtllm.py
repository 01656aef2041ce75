"""The `tensorrtllm` dialect: TensorRT-LLM's own model with ids, or one of the models with text around it.

Which it is, and under which names its parameters go, is read from the config: `tensorrt_llm` takes `input_ids`,
`ensemble` and `tensorrt_llm_bls` take `text_input`, and the LLM API's model takes `text_input` with parameters called
`sampling_param_*`. Versions differ in names and types too, so each parameter goes to the first input of those that ever
carried it. A model with ids sends the new ones in each message, without a finish reason: its last message or a full
count is the end. A beam search cannot be streamed: even a decoupled model sends its beams in one message.
"""

from collections.abc import Iterator, Sequence

from tritonclient.grpc.service_pb2 import ModelInferResponse

from conch_contracts.dialects import tensorrtllm as wire
from conch_contracts.messages.generation import SamplingParameters
from conch_contracts.records import Dialect, TextOutput
from conch_kit.errors import InvalidRequest
from conch_kit.triton.declared_tensors import DeclaredTensors, Inputs
from conch_kit.triton.errors import MalformedResponse
from conch_kit.triton.tensors import Outputs, Value, is_final, new_request
from conch_llm_worker.dialects.beams import BEAM_WIDTH, check_beams, length, row
from conch_llm_worker.dialects.capability_check import grammar_param, needs_logprobs, refuse, unsupported
from conch_llm_worker.dialects.guided_decoding import Guide, tensorrtllm_guide
from conch_llm_worker.dialects.logit_bias import whole_bias
from conch_llm_worker.dialects.order import Order
from conch_llm_worker.dialects.text_messages import TextReader, refuse_ids, texts_of
from conch_llm_worker.dialects.token_deltas import DeltaReader, EngineCall, EngineEnd, Logprobs, TokenDelta
from conch_llm_worker.dialects.word_lists import word_list

_UINT64 = 2**64
_ON = ("true", "1")


def dispatch(order: Order) -> EngineCall:
    """Return the engine call for one choice; raise `InvalidRequest` for what the engine cannot do."""
    request, layout, limit = order.request, order.layout, order.sampling.max_tokens
    refuse(request, order.sampling)
    message = new_request(request.target.model, request.request_id)
    inputs = Inputs(message, layout)
    for names in (wire.LIMIT, (wire.INPUT_IDS, wire.TEXT_INPUT)):
        if layout.first(names) is None:
            raise MalformedResponse(f"The model declares none of {', '.join(names)}; it is no tensorrtllm model.")
    inputs.offer(wire.LIMIT, limit)
    _send_sampling(inputs, order)
    streamed = layout.decoupled and order.sampling.beams is None
    inputs.offer(wire.STREAMING, value=streamed)
    excluded = inputs.offer(wire.EXCLUDE_INPUT, value=True) or _setting(layout, wire.EXCLUDE_INPUT[0]) in _ON
    repeated = not streamed and not excluded  # a stream never begins with the prompt
    beams: tuple[DeltaReader, ...] = ()
    if wire.INPUT_IDS in layout.datatypes:
        told = _send_ids(inputs, order)
        known, width = order.prompt.ids if repeated else (), order.sampling.beams or 0
        reader: DeltaReader = IdsReader(known, limit, streamed=streamed)
        beams = tuple(IdsReader(known, limit, streamed=False, beam=beam) for beam in range(width))
    else:
        told = False
        _send_text(inputs, order)
        reader = TextReader(texts_of(_text_output(order), order.prompt.text if repeated else ""))
    inputs.check_required(Dialect.TENSORRTLLM)
    text = wire.INPUT_IDS not in layout.datatypes
    return EngineCall(message, reader, layout.decoupled, text=text, beams=beams, told_words=told)


def _send_sampling(inputs: Inputs, order: Order) -> None:
    sampling = order.sampling
    if sampling.beams is None:
        _send_drawing(inputs, sampling)
    else:
        check_beams(sampling, order.layout)
        _send_beams(inputs, sampling)
    seed = None if sampling.seed is None else sampling.seed % _UINT64
    if not inputs.offer(wire.SEED, seed) and order.request.sampling.seed is not None:
        raise unsupported("seed")
    for param, names, value in _optional(sampling):
        if not inputs.offer(names, value):
            raise unsupported(param)
    _send_bias(inputs, order)
    if needs_logprobs(order.request) and (
        wire.INPUT_IDS not in order.layout.datatypes or not inputs.offer((wire.RETURN_LOGPROBS,), value=True)
    ):
        raise unsupported("logprobs" if order.request.logprobs else "best_of")
    if sampling.grammar is not None:
        param = grammar_param(order.request)
        _send_guide(inputs, tensorrtllm_guide(sampling.grammar, param), param)


def _send_drawing(inputs: Inputs, sampling: SamplingParameters) -> None:
    greedy = sampling.temperature == 0
    # Without top_k and top_p the backend is greedy, so both are sent even when they are off.
    always: tuple[tuple[str, tuple[str, ...], float, float], ...] = (
        ("temperature", wire.TEMPERATURE, 1.0 if greedy else sampling.temperature, 1.0),
        ("top_k", wire.TOP_K, 1 if greedy else sampling.top_k, 0),
        ("top_p", wire.TOP_P, 1.0 if greedy else sampling.top_p, 1.0),
    )
    for param, names, chosen, off in always:
        if not inputs.offer(names, chosen) and chosen != off:
            raise unsupported("temperature" if greedy else param)


def _send_beams(inputs: Inputs, sampling: SamplingParameters) -> None:
    inputs.offer((BEAM_WIDTH,), sampling.beams)
    if sampling.beams == 1:
        inputs.offer(wire.TOP_K, 1)  # the engine would draw with one beam; to search with one is to be greedy
    temperature = sampling.temperature or 1.0
    if not inputs.offer(wire.TEMPERATURE, temperature) and temperature != 1:
        raise unsupported("temperature")
    if sampling.length_penalty < 0:
        raise InvalidRequest(
            "This model's engine takes no 'length_penalty' below 0.", param="length_penalty", code="invalid_value"
        )
    if not inputs.offer(wire.LENGTH_PENALTY, sampling.length_penalty) and sampling.length_penalty != 1:
        raise unsupported("length_penalty")


def _send_bias(inputs: Inputs, order: Order) -> None:
    sampling, size = order.sampling, order.request.backend.vocab_size
    if not sampling.logit_bias and sampling.allowed_token_ids is None:
        return
    if size is None or order.layout.datatypes.get(wire.BIAS) != "FP32":
        raise unsupported("logit_bias" if sampling.logit_bias else "allowed_token_ids")
    inputs.add_packed(wire.BIAS, [size], whole_bias(sampling, size))


def _send_guide(inputs: Inputs, guide: Guide, param: str) -> None:
    text = None if guide.guide is None else guide.guide.encode()
    if not inputs.offer((wire.GUIDE_TYPE,), guide.type.encode()) or not inputs.offer((wire.GUIDE,), text):
        raise unsupported(param)


def _optional(sampling: SamplingParameters) -> Iterator[tuple[str, tuple[str, ...], Value]]:
    """Yield the parameters that are sent only when they do something: name, inputs that carry it, and value."""
    if sampling.repetition_penalty != 1:
        yield "repetition_penalty", wire.REPETITION_PENALTY, sampling.repetition_penalty
    if sampling.presence_penalty != 0:
        yield "presence_penalty", wire.PRESENCE_PENALTY, sampling.presence_penalty
    if sampling.frequency_penalty != 0:
        yield "frequency_penalty", wire.FREQUENCY_PENALTY, sampling.frequency_penalty
    if sampling.min_tokens > 0:
        yield "min_tokens", wire.MIN_TOKENS, sampling.min_tokens


def _send_ids(inputs: Inputs, order: Order) -> bool:
    """Send the prompt and the ending ids; return whether the engine stops at the model's own words."""
    backend, sampling, layout, prompt = order.request.backend, order.sampling, order.layout, order.prompt.ids
    inputs.add(wire.INPUT_IDS, [len(prompt)], prompt)
    inputs.offer((wire.INPUT_LENGTHS,), len(prompt))
    natural = () if backend.end_id is None else (backend.end_id,)
    ends = tuple(dict.fromkeys((*natural, *sampling.eos_token_ids)))
    if sampling.ignore_eos:
        _disable_end(inputs, layout)
    if ends:
        inputs.offer((wire.PAD_ID,), ends[0])
        inputs.offer((wire.END_ID,), None if sampling.ignore_eos else ends[0])
    if sampling.bad_words and not _send_words(inputs, wire.BAD_IDS, sampling.bad_words, layout):
        raise unsupported(order.request.bad_words_param)
    if sampling.min_tokens > 0:  # the engine would stop at a word before; the worker does not
        return False
    others = (*sampling.stop_token_ids, *(() if sampling.ignore_eos else ends[1:]))
    return _send_words(inputs, wire.STOP_IDS, (*backend.stop_words, *((id_,) for id_ in others)), layout)


def _send_words(inputs: Inputs, name: str, words: Sequence[Sequence[int]], layout: DeclaredTensors) -> bool:
    """Send a list of words where the model takes one."""
    rows = word_list(words)
    if name in layout.datatypes and rows:
        inputs.add(name, [2, len(rows) // 2], rows)
    return name in layout.datatypes


def _send_text(inputs: Inputs, order: Order) -> None:
    layout, sampling = order.layout, order.sampling
    if sampling.beams is not None:
        raise unsupported("use_beam_search")
    if not order.prompt.text_is_exact:
        raise refuse_ids(order.request.api)
    own = {word[0] for word in order.request.backend.stop_words if len(word) == 1}
    if set(sampling.stop_token_ids) - own:
        raise unsupported("stop_token_ids")
    if not order.request.skip_special_tokens:
        raise unsupported("skip_special_tokens")
    details = order.request.details
    if details is not None and not details.spaces_between_special_tokens:
        raise unsupported("spaces_between_special_tokens")
    if details is not None and details.token_ids:
        raise unsupported("return_token_ids")
    if details is not None and details.max_frame_tokens is not None:
        raise unsupported("max_streaming_response_tokens")
    inputs.add(wire.TEXT_INPUT, [1], [order.prompt.text.encode()])
    if sampling.ignore_eos:
        _disable_end(inputs, layout)
    bad = order.bad_words()
    if bad and wire.BAD_WORDS not in layout.datatypes:
        raise unsupported(order.request.bad_words_param)
    for name, words in ((wire.BAD_WORDS, bad), (wire.STOP_WORDS, [])):
        if words or name in layout.required:  # the first versions want an empty word for none
            inputs.add(name, [max(1, len(words))], [word.encode() for word in words] or [b""])
    for name in ("return_finish_reason", "return_num_output_tokens"):
        inputs.offer((name,), value=True)


def _disable_end(inputs: Inputs, layout: DeclaredTensors) -> None:
    if not layout.is_signed(wire.END_ID):
        raise unsupported("ignore_eos")
    inputs.offer((wire.END_ID,), -1)


def _text_output(order: Order) -> TextOutput:
    """Return what each message holds: the LLM API's model and one that accumulates tokens send all of it."""
    layout = order.layout
    if not layout.decoupled:
        return TextOutput.CUMULATIVE  # the one message is everything
    whole = wire.LLM_API_LIMIT in layout.datatypes or _setting(layout, "accumulate_tokens") in _ON
    return order.request.target.text_output or (TextOutput.CUMULATIVE if whole else TextOutput.DELTA)


def _setting(layout: DeclaredTensors, name: str) -> str:
    return layout.settings.get(name, "").lower()


class IdsReader:
    """Reads the ids of one request or beam: the new ones in each message, or all at once after the prompt."""

    __slots__ = ("_beam", "_made", "_max_tokens", "_prompt", "_streamed")

    def __init__(self, prompt: Sequence[int], max_tokens: int, *, streamed: bool, beam: int = 0) -> None:
        self._beam = beam
        self._prompt = prompt
        self._max_tokens = max_tokens
        self._streamed = streamed
        self._made = 0

    def read(self, response: ModelInferResponse) -> TokenDelta:
        """Return the ids that a message brought."""
        out = Outputs(response)
        final = not self._streamed or is_final(response)
        if not out.has(wire.OUTPUT_IDS):
            if not final:
                raise MalformedResponse("An answer without output_ids.")
            return TokenDelta((), end=self._end())
        ids = out.ints(wire.OUTPUT_IDS)[row(out, wire.OUTPUT_IDS, self._beam)][: length(out, self._beam)]
        if tuple(ids[: len(self._prompt)]) != tuple(self._prompt):
            raise MalformedResponse("The engine's answer does not begin with the prompt.")
        ids = ids[len(self._prompt) :]
        known, self._made = self._made, self._made + len(ids)
        return TokenDelta(ids, self._logprobs(out, known, len(ids)), end=self._end() if final else None)

    def _logprobs(self, out: Outputs, known: int, count: int) -> Logprobs | None:
        """Return the new tokens' log probabilities; some versions repeat those of all tokens before."""
        if not out.has(wire.OUTPUT_LOGPROBS):
            return None
        values = out.floats(wire.OUTPUT_LOGPROBS)[row(out, wire.OUTPUT_LOGPROBS, self._beam)]
        new = values[known : known + count] if len(values) > count else values
        if len(new) != count:
            raise MalformedResponse(f"output_log_probs has {len(values)} values, too few for the new tokens.")
        return Logprobs(new, (), ())

    def _end(self) -> EngineEnd:
        return EngineEnd.LENGTH if self._made >= self._max_tokens else EngineEnd.UNKNOWN
