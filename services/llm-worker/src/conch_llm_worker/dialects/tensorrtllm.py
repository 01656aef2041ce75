"""The `tensorrtllm` dialect: TensorRT-LLM's own model with ids, or one of the models with text around it.

Which it is, and under which names its parameters go, is read from the config: `tensorrt_llm` takes `input_ids`,
`ensemble` and `tensorrt_llm_bls` take `text_input`, and the LLM API's model takes `text_input` with parameters called
`sampling_param_*`. Versions differ in names and types too, so each parameter goes to the first input of those that ever
carried it. A model with ids sends the new ones in each message, without a finish reason: its last message or a full
count is the end. A beam search cannot be streamed: even a decoupled model sends its beams in one message.
"""

import math
from array import array
from collections.abc import Iterator, Sequence

from tritonclient.grpc.service_pb2 import ModelInferResponse

from conch_contracts.dialects import tensorrtllm as wire
from conch_contracts.messages.generation import SamplingParameters
from conch_contracts.records import Dialect, TextOutput
from conch_kit.errors import InvalidRequest
from conch_kit.triton.declared_tensors import DeclaredTensors, Inputs
from conch_kit.triton.errors import MalformedResponse
from conch_kit.triton.tensors import Outputs, Value, is_final, new_request
from conch_llm_worker.dialects.answer_sizes import of_buffer, of_text
from conch_llm_worker.dialects.beams import BEAM_WIDTH, check_beams, length, row
from conch_llm_worker.dialects.capability_check import grammar_param, needs_logprobs, refuse, unsupported
from conch_llm_worker.dialects.engine_call import DeltaReader, EngineCall, PreparedChoice
from conch_llm_worker.dialects.guided_decoding import Guide, tensorrtllm_guide
from conch_llm_worker.dialects.text_messages import TextReader, refuse_ids, texts_of
from conch_llm_worker.dialects.token_deltas import EngineEnd, Logprobs, TokenDelta
from conch_llm_worker.dialects.word_lists import word_list

_UINT64 = 2**64
_ON = ("true", "1")


def engine_call(choice: PreparedChoice) -> EngineCall:
    """Return the engine call for one choice; raise `InvalidRequest` for what the engine cannot do."""
    request, declared, limit = choice.request, choice.declared, choice.sampling.max_tokens
    refuse(request, choice.sampling)
    message = new_request(request.target.model, request.request_id)
    inputs = Inputs(message, declared)
    for names in (wire.LIMIT, (wire.INPUT_IDS, wire.TEXT_INPUT)):
        if declared.first(names) is None:
            raise MalformedResponse(f"The model declares none of {', '.join(names)}; it is no tensorrtllm model.")
    inputs.offer(wire.LIMIT, limit)
    _send_sampling(inputs, choice)
    streamed = declared.decoupled and choice.sampling.beams is None
    inputs.offer(wire.STREAMING, value=streamed)
    excluded = inputs.offer(wire.EXCLUDE_INPUT, value=True) or _setting(declared, wire.EXCLUDE_INPUT[0]) in _ON
    repeated = not streamed and not excluded  # a stream never begins with the prompt
    beam_readers: tuple[DeltaReader, ...] = ()
    if wire.INPUT_IDS in declared.datatypes:
        stops_sent = _send_ids(inputs, choice)
        known, width = choice.prompt.ids if repeated else (), choice.sampling.beams or 0
        most_bytes = of_buffer(len(choice.prompt.ids), choice.sampling)
        reader: DeltaReader = IdsReader(known, limit, streamed=streamed)
        beam_readers = tuple(IdsReader(known, limit, streamed=False, beam=beam) for beam in range(width))
    else:
        stops_sent = False
        _send_text(inputs, choice)
        texts = texts_of(_text_output(choice), choice.prompt.text if repeated else "")
        reader = TextReader(texts, streamed=declared.decoupled)
        most_bytes = of_text(choice.prompt.text, choice.sampling)
    inputs.check_required(Dialect.TENSORRTLLM)
    return EngineCall(
        message,
        reader,
        declared.decoupled,
        most_bytes,
        answers_text=wire.INPUT_IDS not in declared.datatypes,
        beam_readers=beam_readers,
        stop_words_sent=stops_sent,
    )


def _send_sampling(inputs: Inputs, choice: PreparedChoice) -> None:
    sampling = choice.sampling
    if sampling.beams is None:
        _send_drawing(inputs, sampling)
    else:
        check_beams(sampling, choice.declared)
        _send_beams(inputs, sampling)
    seed = None if sampling.seed is None else sampling.seed % _UINT64
    if not inputs.offer(wire.SEED, seed) and choice.request.sampling.seed is not None:
        raise unsupported("seed")
    for param, names, value in _optional(sampling):
        if not inputs.offer(names, value):
            raise unsupported(param)
    _send_bias(inputs, choice)
    if needs_logprobs(choice.request) and (
        wire.INPUT_IDS not in choice.declared.datatypes or not inputs.offer((wire.RETURN_LOGPROBS,), value=True)
    ):
        raise unsupported("logprobs" if choice.request.logprobs else "best_of")
    if sampling.grammar is not None:
        param = grammar_param(choice.request)
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


def _send_bias(inputs: Inputs, choice: PreparedChoice) -> None:
    sampling, size = choice.sampling, choice.request.backend.vocab_size
    if not sampling.logit_bias and sampling.allowed_token_ids is None:
        return
    if size is None or choice.declared.datatypes.get(wire.BIAS) != "FP32":
        raise unsupported("logit_bias" if sampling.logit_bias else "allowed_token_ids")
    inputs.add_packed(wire.BIAS, [size], _whole_bias(sampling, size))


def _whole_bias(sampling: SamplingParameters, size: int) -> bytes:
    """Return one bias for each id of the vocabulary, as 32-bit floats that the engine adds to the logits.

    An id that is not allowed gets minus infinity. The ids of a request are below `size`: the gateway has looked.
    """
    allowed = sampling.allowed_token_ids
    biases = array("f", [0.0 if allowed is None else -math.inf]) * size
    for id_ in allowed or ():
        biases[id_] = 0.0
    for id_, bias in sampling.logit_bias.items():
        biases[id_] += bias
    return biases.tobytes()


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


def _send_ids(inputs: Inputs, choice: PreparedChoice) -> bool:
    """Send the prompt and the ending ids; return whether the engine stops at the model's own words."""
    backend, sampling, declared, prompt = choice.request.backend, choice.sampling, choice.declared, choice.prompt.ids
    inputs.add(wire.INPUT_IDS, [len(prompt)], prompt)
    inputs.offer((wire.INPUT_LENGTHS,), len(prompt))
    natural = () if backend.end_id is None else (backend.end_id,)
    ends = tuple(dict.fromkeys((*natural, *sampling.eos_token_ids)))
    if sampling.ignore_eos:
        _disable_end(inputs, declared)
    if ends:
        inputs.offer((wire.PAD_ID,), ends[0])
        inputs.offer((wire.END_ID,), None if sampling.ignore_eos else ends[0])
    if sampling.bad_words and not _send_words(inputs, wire.BAD_IDS, sampling.bad_words, declared):
        raise unsupported(choice.request.bad_words_param)
    if sampling.min_tokens > 0:  # the engine would stop at a word before; the worker does not
        return False
    others = (*sampling.stop_token_ids, *(() if sampling.ignore_eos else ends[1:]))
    return _send_words(inputs, wire.STOP_IDS, (*backend.stop_words, *((id_,) for id_ in others)), declared)


def _send_words(inputs: Inputs, name: str, words: Sequence[Sequence[int]], declared: DeclaredTensors) -> bool:
    """Send a list of words where the model takes one."""
    rows = word_list(words)
    if name in declared.datatypes and rows:
        inputs.add(name, [2, len(rows) // 2], rows)
    return name in declared.datatypes


def _send_text(inputs: Inputs, choice: PreparedChoice) -> None:
    declared, sampling = choice.declared, choice.sampling
    if sampling.beams is not None:
        raise unsupported("use_beam_search")
    if not choice.prompt.text_is_exact:
        raise refuse_ids(choice.request.api)
    own = {word[0] for word in choice.request.backend.stop_words if len(word) == 1}
    if set(sampling.stop_token_ids) - own:
        raise unsupported("stop_token_ids")
    if not choice.request.skip_special_tokens:
        raise unsupported("skip_special_tokens")
    details = choice.request.details
    if details is not None and not details.spaces_between_special_tokens:
        raise unsupported("spaces_between_special_tokens")
    if details is not None and details.token_ids:
        raise unsupported("return_token_ids")
    if details is not None and details.max_frame_tokens is not None:
        raise unsupported("max_streaming_response_tokens")
    inputs.add(wire.TEXT_INPUT, [1], [choice.prompt.text.encode()])
    if sampling.ignore_eos:
        _disable_end(inputs, declared)
    bad = choice.bad_words()
    if bad and wire.BAD_WORDS not in declared.datatypes:
        raise unsupported(choice.request.bad_words_param)
    for name, words in ((wire.BAD_WORDS, bad), (wire.STOP_WORDS, [])):
        if words or name in declared.required:  # the first versions want an empty word for none
            inputs.add(name, [max(1, len(words))], [word.encode() for word in words] or [b""])
    for name in ("return_finish_reason", "return_num_output_tokens"):
        inputs.offer((name,), value=True)


def _disable_end(inputs: Inputs, declared: DeclaredTensors) -> None:
    if not declared.is_signed(wire.END_ID):
        raise unsupported("ignore_eos")
    inputs.offer((wire.END_ID,), -1)


def _text_output(choice: PreparedChoice) -> TextOutput:
    """Return what each message holds: the LLM API's model and one that accumulates tokens send all of it."""
    declared = choice.declared
    if not declared.decoupled:
        return TextOutput.CUMULATIVE  # the one message is everything
    whole = wire.LLM_API_LIMIT in declared.datatypes or _setting(declared, "accumulate_tokens") in _ON
    return choice.request.target.text_output or (TextOutput.CUMULATIVE if whole else TextOutput.DELTA)


def _setting(declared: DeclaredTensors, name: str) -> str:
    return declared.settings.get(name, "").lower()


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
