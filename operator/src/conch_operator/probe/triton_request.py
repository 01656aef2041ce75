"""Asks a Triton server for one token or one row, in the dialect of its model.

When that fails, the model's own load error from the server's repository index is the best explanation there is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import assert_never

from tritonclient.grpc.service_pb2 import ModelInferRequest

from conch_contracts.conditions import Reason
from conch_contracts.dialects import encoder, speech, tensorrtllm, vllm
from conch_contracts.dialects.tokens import INPUT_IDS, PARAMETERS
from conch_contracts.messages.generation import SamplingParameters
from conch_contracts.messages.message import to_json
from conch_contracts.messages.transcription import SpeechParameters
from conch_contracts.names import EngineAddress
from conch_contracts.records import Dialect
from conch_kit.triton.checked_addresses import HTTP, NO_RULES, CheckedAddresses
from conch_kit.triton.client import TritonClient
from conch_kit.triton.declared_tensors import DeclaredTensors, Inputs, read_declared_tensors
from conch_kit.triton.encoder_tensors import UnknownTensors, read_encoder_tensors
from conch_kit.triton.errors import EngineError, EngineFull, EngineRejected, EngineTimeout, EngineUnavailable
from conch_kit.triton.http_client import TritonHttp
from conch_kit.triton.message_limits import MAX_PROBE_BYTES
from conch_kit.triton.tensors import add_input, add_raw, new_request, pack
from conch_kit.triton.whisper_tensors import read_whisper_tensors, whisper_request
from conch_operator.probe.prober import NoAnswer, Target

ANSWER_TIMEOUT_S = 20.0
"""Long enough for a request that waits behind a full batch on a busy machine."""

_DEAD_BACKEND = "is not healthy"
"""What Triton says of a Python model whose process has ended; it never starts that again."""

_KILLED = (
    "The model's Python process ended without a word, as one does that is killed for lack of memory: "
    "see limits.memory in spec.engine.resources."
)
"""Triton's server lives on then, so neither it nor its container says so."""

_REQUEST_ID = "probe"
_TOKEN = 0
_TEXT = b"Hello"
_QUIET_SAMPLES = speech.SAMPLE_RATE // 10
_STACK = "\n\nAt:\n"
_STREAM = (*tensorrtllm.STREAMING, *vllm.STREAM)
_IDS: Mapping[tuple[str, ...], int | bytes] = {("input_ids",): _TOKEN, ("input_lengths",): 1}
_ONE_TOKEN: Mapping[Dialect, Mapping[tuple[str, ...], int | bytes]] = {
    Dialect.FASTERTRANSFORMER: {**_IDS, ("request_output_len",): 1},
    Dialect.TENSORRTLLM: {**_IDS, (tensorrtllm.TEXT_INPUT,): _TEXT, tensorrtllm.LIMIT: 1},
    Dialect.VLLM: {vllm.PROMPT: _TEXT, vllm.PARAMETERS: b'{"max_tokens": 1, "temperature": 0.0}'},
}
"""The inputs of a one-token request, each under the first of its names that the model declares."""


def bounded_client() -> TritonClient:
    """Return a client that takes no longer answers than those to the requests of this module."""
    return TritonClient(most_bytes=MAX_PROBE_BYTES)


class TritonProbeClient:
    """Sends one-token and one-row requests to Triton servers."""

    def __init__(
        self,
        client: TritonClient,
        http: TritonHttp,
        answer_timeout_s: float = ANSWER_TIMEOUT_S,
        *,
        addresses: CheckedAddresses = NO_RULES,
    ) -> None:
        self._client = client
        self._http = http
        self._addresses = addresses
        self._timeout_s = answer_timeout_s

    async def probe(self, target: Target) -> None:
        """Return when the engine has answered; raises NoAnswer with the root cause.

        Whoever named an address that is checked hears of no cause before a server of models has answered there: else
        the words would tell which ports of the network are open.
        """
        if not self._addresses.guards(target.named_in):
            await self._ask(target)
            return
        dialled = None
        try:
            dialled = replace(target, address=await self._addresses.dialled(target.address, target.named_in))
            await self._ask(dialled)
        except (NoAnswer, EngineError) as cause:
            if dialled is None or not await self._is_server(dialled.address):
                message = f"No server of models that may be used answers at {target.address}."
                silent = isinstance(cause, NoAnswer) and cause.silent
                busy = isinstance(cause, NoAnswer) and cause.busy
                raise NoAnswer(
                    Reason.ENGINE_UNREACHABLE, message, silent=silent, busy=busy, detail=str(cause)
                ) from cause
            raise

    async def _is_server(self, address: EngineAddress) -> bool:
        try:
            if address.startswith(HTTP):
                await self._http.check_protocol(address)
            else:
                await self._client.repository_index(address)
        except EngineError:
            return False
        return True

    async def _ask(self, target: Target, *, again: bool = False) -> None:
        """Return when the engine has answered; raises NoAnswer with the root cause.

        One that cannot be reached and then says that it serves the model is asked `again`: it may just have come up.
        """
        if target.named_in is None:
            try:
                await self._client.reach(target.address)
            except EngineUnavailable as error:
                raise _unreachable(target, error) from error
        try:
            await self._request(target)
        except EngineTimeout as error:
            message = f"No token within {self._timeout_s:g} s of a one-token request."
            if target.dialect is Dialect.ENCODER:
                message = "No answer in time to a request of one row."
            raise NoAnswer(Reason.ENGINE_PROBE_FAILED, message, silent=True) from error
        except EngineFull as error:
            message = f"The engine takes no request, since too much waits inside it: {error}"
            raise NoAnswer(Reason.ENGINE_PROBE_FAILED, message, busy=True) from error
        except (EngineUnavailable, EngineRejected) as error:
            failure = await self._load_error(target, error, again=again)
            if failure is not None:
                raise failure from error
            await self._ask(target, again=True)
        except UnknownTensors as error:
            raise NoAnswer(Reason.ENGINE_PROBE_FAILED, str(error)) from error
        except EngineError as error:
            raise NoAnswer(Reason.ENGINE_PROBE_FAILED, f"A one-token request failed: {error}") from error

    async def _request(self, target: Target) -> None:
        match target.dialect:
            case Dialect.TOKENS:
                await self._stream(target, tokens_request(target.model))
            case Dialect.SPEECH:
                await self._stream(target, speech_request(target.model, target.prompt_ids))
            case Dialect.ENCODER:
                await self._encode(target)
            case Dialect.FASTERTRANSFORMER | Dialect.TENSORRTLLM | Dialect.VLLM:
                layout = read_declared_tensors(await self._client.model_config(target.address, target.model))
                request = one_token_request(target.dialect, target.model, layout)
                await self._answer(target, request, decoupled=layout.decoupled)
            case Dialect.WHISPER_BLS:
                tensors = read_whisper_tensors(await self._client.model_config(target.address, target.model))
                # An empty prefix is the model's own: English, or what it was made for.
                request = whisper_request(target.model, _REQUEST_ID, tensors, b"", bytes(4 * _QUIET_SAMPLES))
                await self._answer(target, request, decoupled=tensors.decoupled)
            case _:
                assert_never(target.dialect)

    async def _answer(self, target: Target, request: ModelInferRequest, *, decoupled: bool) -> None:
        """Ask for one token, or for one window, in the way in which the model answers."""
        if decoupled:
            await self._stream(target, request)
        else:
            await self._client.infer(target.address, request, timeout_s=self._timeout_s)

    async def _encode(self, target: Target) -> None:
        """Have one row of one token encoded."""
        over_http = target.address.startswith(HTTP)
        server = self._http if over_http else self._client
        layout = read_encoder_tensors(
            await server.model_config(target.address, target.model), dict(target.inputs), target.output
        )
        shape = (1, 1) if layout.batched else (1,)
        if over_http:
            tensors = [(name, kind, shape, _element(kind, logical)) for logical, name, kind in layout.inputs]
            await self._http.infer(target.address, target.model, tensors, layout.output, timeout_s=self._timeout_s)
            return
        request = new_request(target.model, _REQUEST_ID)
        for logical, name, kind in layout.inputs:
            add_raw(request, name, kind, shape, _element(kind, logical))
        await self._client.infer(target.address, request, timeout_s=self._timeout_s)

    async def _stream(self, target: Target, request: ModelInferRequest) -> None:
        limit_s = self._timeout_s
        responses = self._client.stream(
            target.address, request, first_timeout_s=limit_s, inter_timeout_s=limit_s, timeout_s=2 * limit_s
        )
        async for _ in responses:
            pass

    async def _load_error(self, target: Target, error: EngineError, *, again: bool) -> NoAnswer | None:
        """Return why the server does not serve the model, in its own words where it has any; None: ask again."""
        if target.address.startswith(HTTP):
            unreachable = isinstance(error, EngineUnavailable)
            reason = Reason.ENGINE_UNREACHABLE if unreachable else Reason.ENGINE_PROBE_FAILED
            return NoAnswer(reason, f"A one-row request to {target.model} at {target.address} failed: {error}")
        try:
            index = await self._client.repository_index(target.address)
        except EngineError:
            return _unreachable(target, error)
        row = next((row for row in index if row.name == target.model), None)
        if row is None:
            held = ", ".join(row.name for row in index if not row.name.startswith(".")) or "none"
            message = f"The server holds no model called {target.model} (it holds: {held}). Check modelName."
            return NoAnswer(Reason.ENGINE_PROBE_FAILED, message)
        if row.state != "READY" and row.reason:
            return NoAnswer(
                Reason.ENGINE_LOAD_FAILED, _failure(f"Triton could not load {row.name}", load_cause(row.reason))
            )
        dead = _DEAD_BACKEND in str(error)
        if isinstance(error, EngineUnavailable) and not dead:
            if row.state != "READY":  # it has come up, or back, since
                return NoAnswer(Reason.ENGINE_UNREACHABLE, f"Nothing answered at {target.address}: {error}")
            if not again:
                return None
        return NoAnswer(Reason.ENGINE_PROBE_FAILED, _failure("A one-token request failed", str(error)), dead=dead)


def _unreachable(target: Target, error: EngineError) -> NoAnswer:
    return NoAnswer(Reason.ENGINE_UNREACHABLE, f"Nothing answers at {target.address}: {error}")


def tokens_request(model: str) -> ModelInferRequest:
    """Return a one-token request in the `tokens` dialect."""
    request = new_request(model, _REQUEST_ID)
    parameters = SamplingParameters(max_tokens=1, temperature=0.0, ignore_eos=True)
    add_input(request, INPUT_IDS, "INT32", [1], [_TOKEN])
    add_input(request, PARAMETERS, "BYTES", [1], [to_json(parameters)])
    return request


def speech_request(model: str, prompt_ids: Sequence[int]) -> ModelInferRequest:
    """Return a request for one token of a moment of silence in the `speech` dialect."""
    request = new_request(model, _REQUEST_ID)
    add_raw(request, speech.PCM, "INT16", [_QUIET_SAMPLES], bytes(2 * _QUIET_SAMPLES))
    add_input(request, speech.PROMPT_IDS, "INT32", [len(prompt_ids)], prompt_ids)
    add_input(request, speech.PARAMETERS, "BYTES", [1], [to_json(SpeechParameters(max_tokens=1))])
    return request


def one_token_request(dialect: Dialect, model: str, layout: DeclaredTensors) -> ModelInferRequest:
    """Return a one-token request for a model of another backend, as its config wants it; raises EngineError."""
    request = new_request(model, _REQUEST_ID)
    inputs = Inputs(request, layout)
    for names, value in _ONE_TOKEN[dialect].items():
        inputs.offer(names, value)
    inputs.offer(_STREAM, value=layout.decoupled)
    for name in layout.required & {tensorrtllm.BAD_WORDS, tensorrtllm.STOP_WORDS}:
        inputs.offer((name,), b"")
    inputs.check_required(dialect)
    return request


def load_cause(reason: str) -> str:
    """Return a load error without the stack that Triton's Python backend writes below it."""
    return reason.partition(_STACK)[0].strip()


def _failure(what: str, cause: str) -> str:
    """Return what failed and why, with what Triton's words mean where they do not tell."""
    return f"{what}: {cause.rstrip('.')}. {_KILLED}" if _DEAD_BACKEND in cause else f"{what}: {cause}"


def _element(datatype: str, logical: str) -> bytes:
    """Return the one element of an encoder's input: any token, which is there, of the first text."""
    return pack(datatype, [1 if logical == encoder.ATTENTION_MASK else _TOKEN])
