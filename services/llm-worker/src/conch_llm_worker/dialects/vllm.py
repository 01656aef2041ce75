"""The `vllm` dialect of Triton's vLLM backend: text and a JSON of vLLM's own parameters in, text out.

Only parameters that differ from vLLM's defaults are sent, because an unknown one fails the request and versions differ.
Pictures go beside the text, which has one placeholder for each.
The backend is always asked to stream, so that a stop string or a client that goes ends its work. Each message brings
the text since the last one and, where the model declares these outputs, the number of its tokens and the finish reason.
When log probabilities are asked for, they name the tokens, and the answer is made of ids as in the other dialects.
"""

from base64 import b64encode
from collections.abc import Mapping, Sequence

import orjson
from tritonclient.grpc.service_pb2 import ModelInferResponse

from conch_contracts.dialects import vllm as wire
from conch_contracts.messages.generation import BackendOptions, PreparedPicture
from conch_contracts.records import Dialect, TextOutput
from conch_kit.errors import InvalidRequest
from conch_kit.json_bytes import json_bytes
from conch_kit.triton.declared_tensors import DeclaredTensors, Inputs
from conch_kit.triton.errors import MalformedResponse
from conch_kit.triton.tensors import Outputs, is_final, new_request
from conch_llm_worker.dialects.answer_sizes import of_json, of_text
from conch_llm_worker.dialects.capability_check import PICTURES_PARAM, refuse, unsupported
from conch_llm_worker.dialects.engine_call import EngineCall, PreparedChoice
from conch_llm_worker.dialects.guided_decoding import vllm_guidance
from conch_llm_worker.dialects.text_messages import TextReader, read_end, refuse_ids, single_text, texts_of
from conch_llm_worker.dialects.token_deltas import Logprobs, TokenDelta

_WANTED = ("exclude_input_in_output", "return_finish_reason", "return_num_output_tokens")
_DEFAULTS: Mapping[str, object] = {
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "min_tokens": 0,
    "seed": None,
    "ignore_eos": False,
}
"""vLLM's defaults; the names are the same in our parameters and in its own."""


def engine_call(choice: PreparedChoice) -> EngineCall:
    """Return the engine call for one choice; raise `InvalidRequest` for what the engine cannot do."""
    request, prompt, declared = choice.request, choice.prompt, choice.declared
    refuse(request, choice.sampling)
    if not prompt.text_is_exact:
        raise refuse_ids(request.api)
    message = new_request(request.target.model, request.request_id)
    inputs = Inputs(message, declared)
    if not inputs.offer(wire.PROMPT, prompt.text.encode()) or not inputs.offer(
        wire.PARAMETERS, json_bytes(_parameters(choice))
    ):
        raise MalformedResponse("The model declares no text_input and sampling_parameters; it is no vllm model.")
    if prompt.pictures:
        _add_pictures(inputs, declared, prompt.pictures)
    inputs.offer(wire.STREAM, value=True)
    logprobs = request.logprobs or request.best_of is not None
    for name in _WANTED:
        inputs.offer((name,), value=True)
    if logprobs and not inputs.offer(("return_logprobs",), value=True):
        raise unsupported("logprobs" if request.logprobs else "best_of")
    inputs.check_required(Dialect.VLLM)
    if logprobs:
        reader, most = LogprobsReader(choice.sampling.logprobs or 0), of_json(prompt.text, choice.sampling)
        return EngineCall(message, reader, streamed=True, most_bytes=most)
    most = of_text(prompt.text, choice.sampling)
    return EngineCall(message, _text_reader(choice), streamed=True, most_bytes=most, answers_text=True)


def _add_pictures(inputs: Inputs, declared: DeclaredTensors, pictures: Sequence[PreparedPicture]) -> None:
    if wire.IMAGE not in declared.datatypes:
        raise unsupported(PICTURES_PARAM)
    inputs.add(wire.IMAGE, [len(pictures)], [b64encode(picture.data) for picture in pictures])


def _text_reader(choice: PreparedChoice) -> TextReader:
    chosen = choice.request.target.text_output
    if (
        wire.OLD_TEXT_OUTPUT in choice.declared.outputs
    ):  # the first versions sent the prompt and the whole answer every time
        return TextReader(texts_of(chosen or TextOutput.CUMULATIVE, choice.prompt.text), wire.OLD_TEXT_OUTPUT)
    return TextReader(texts_of(chosen or TextOutput.DELTA))


def _parameters(choice: PreparedChoice) -> dict[str, object]:
    request, sampling = choice.request, choice.sampling
    chosen: dict[str, object] = {"max_tokens": sampling.max_tokens, "temperature": sampling.temperature}
    values = {name: getattr(sampling, name) for name in _DEFAULTS}
    chosen |= {name: value for name, value in values.items() if value != _DEFAULTS[name]}
    ending = (*sampling.stop_token_ids, *(() if sampling.ignore_eos else sampling.eos_token_ids))
    if ending:
        chosen["stop_token_ids"] = list(dict.fromkeys(ending))
    if words := dict.fromkeys(word.lstrip() for word in choice.bad_words()):
        if "" in words:
            said = f"'{request.bad_words_param}' holds a word of white space alone, which vLLM cannot ban."
            raise InvalidRequest(said, param=request.bad_words_param, code="unsupported_parameter")
        chosen["bad_words"] = list(words)  # vLLM itself bans each with and without a space before it
    if request.logprobs or request.best_of is not None:
        chosen["logprobs"] = sampling.logprobs or 0
    if choice.keep_special_tokens:
        chosen["skip_special_tokens"] = False
    if request.details is not None and not request.details.spaces_between_special_tokens:
        chosen["spaces_between_special_tokens"] = False
    if sampling.allowed_token_ids is not None:
        chosen["allowed_token_ids"] = list(sampling.allowed_token_ids)
    if sampling.grammar is not None:
        guidance = wire.STRUCTURED_OUTPUTS if wire.EMBEDDING in choice.declared.datatypes else wire.GUIDED_DECODING
        chosen[guidance] = json_bytes(vllm_guidance(sampling.grammar)).decode()
    if extra := _extra_arguments(request.backend):
        chosen["extra_args"] = extra
    return chosen


def _extra_arguments(backend: BackendOptions) -> dict[str, object]:
    transfer = {} if backend.kv_transfer is None else {"kv_transfer_params": backend.kv_transfer}
    return {**backend.extra_arguments, **transfer}


class LogprobsReader:
    """Reads the tokens out of their log probabilities: each is an object whose first key is the chosen id."""

    __slots__ = ("_alternatives",)

    def __init__(self, alternatives: int) -> None:
        self._alternatives = alternatives

    def read(self, response: ModelInferResponse) -> TokenDelta:
        """Return the tokens that a message brought."""
        out = Outputs(response)
        raw = single_text(out, wire.LOGPROBS)
        end = read_end(out, final=is_final(response))
        try:
            found = [_token(entry, self._alternatives) for entry in orjson.loads(raw or b"null") or ()]
        except (ValueError, TypeError, KeyError, AttributeError, StopIteration) as exc:
            raise MalformedResponse(f"The engine's logprobs cannot be read: {exc!r}") from exc
        if not found:
            return TokenDelta((), end=end)
        ids, chosen, top_ids, top = zip(*found, strict=True)
        return TokenDelta(ids, Logprobs(chosen, top_ids, top), end=end)


def _token(
    entry: Mapping[str, Mapping[str, float]], alternatives: int
) -> tuple[int, float, tuple[int, ...], tuple[float, ...]]:
    """Return a token's id, its log probability, and the most likely ones at its place."""
    chosen = next(iter(entry))
    ranked = sorted(entry, key=lambda id_: entry[id_]["rank"])[:alternatives]
    values = tuple(float(entry[id_]["logprob"]) for id_ in ranked)
    return int(chosen), float(entry[chosen]["logprob"]), tuple(map(int, ranked)), values
