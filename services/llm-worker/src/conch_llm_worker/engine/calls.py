"""Calls an engine in the dialect of its model: one gRPC call per choice, or for all beams of a search.

All dialects but `tokens` need the model's own config; it is read once per engine and model, and again after a call
failed, since another model may have taken its place.
"""

import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from tritonclient.grpc.model_config_pb2 import ModelConfig
from tritonclient.grpc.service_pb2 import ModelInferRequest, ModelInferResponse

from conch_contracts.messages.generation import GenerateRequest, PreparedPrompt, SamplingParameters
from conch_contracts.messages.message import changed
from conch_contracts.names import EngineAddress
from conch_contracts.records import Dialect
from conch_kit.errors import InvalidRequest, UpstreamError
from conch_kit.tracing import Span, Tracer
from conch_kit.triton.declared_tensors import DeclaredTensors, read_declared_tensors
from conch_llm_worker.dialects import fastertransformer, tensorrtllm, tokens, vllm
from conch_llm_worker.dialects.engine_call import EngineCall, PreparedChoice
from conch_llm_worker.parsing.answer_reader import marks_of
from conch_llm_worker.text.vocabulary import Vocabulary

log = logging.getLogger(__name__)

_UNTOUCHED = SamplingParameters(max_tokens=1)
"""What parameters say that nobody gave."""

_INT64_MAX = 2**63
_MAX_ENGINES = 512
"""Models of engines that are remembered; beyond this the least recently used one goes, since pods come and go."""


class Responses(Protocol):
    """The messages of one call; closing them ends it."""

    def __aiter__(self) -> AsyncIterator[ModelInferResponse]:
        """Return the iterator over the messages."""
        ...

    async def aclose(self) -> None:
        """End the call."""
        ...

    def finish_in_background(self, within_s: float) -> None:
        """Read the rest in the background; cancel the call when its end does not come in time."""
        ...


class StreamingTriton(Protocol):
    """What this module needs of a Triton client."""

    def stream(
        self,
        address: EngineAddress,
        request: ModelInferRequest,
        *,
        first_timeout_s: float,
        inter_timeout_s: float,
        timeout_s: float,
        most_bytes: int,
    ) -> Responses:
        """Call a decoupled model, which sends at most `most_bytes` a message; closing the iterator cancels it."""
        ...

    async def infer(
        self, address: EngineAddress, request: ModelInferRequest, *, timeout_s: float, most_bytes: int
    ) -> ModelInferResponse:
        """Call a model that answers once, with no more than `most_bytes`."""
        ...

    async def model_config(self, address: EngineAddress, model: str) -> ModelConfig:
        """Read a model's config."""
        ...


@dataclass(slots=True)
class _EngineModel:
    """What is known of one model of one engine."""

    declared: DeclaredTensors | None = None
    left_out: set[str] = field(default_factory=set)
    """Defaults that it cannot obey, and of which the log tells."""


class EngineCalls:
    """Prepares and makes the engine calls of requests."""

    def __init__(self, triton: StreamingTriton, random_seed: Callable[[], int], tracer: Tracer) -> None:
        self._triton = triton
        self._random_seed = random_seed
        self._tracer = tracer
        self._models: OrderedDict[tuple[EngineAddress, str], _EngineModel] = OrderedDict()

    async def prepare(self, request: GenerateRequest, index: int, vocabulary: Vocabulary) -> EngineCall:
        """Return the call for one choice; raise `InvalidRequest` for what its dialect cannot express.

        What only the model's defaults ask for is left out instead.
        """
        position, variant = divmod(index, request.candidates)
        sampling = _sampling_of(request, variant)
        while True:
            try:
                return await self._call(request, request.prompts[position], sampling, vocabulary)
            except InvalidRequest as refused:
                sampling = self._without(refused, request, sampling)

    def _without(
        self, refused: InvalidRequest, request: GenerateRequest, sampling: SamplingParameters
    ) -> SamplingParameters:
        """Return the parameters without the default that was refused; raise what no default of the model asks for."""
        name = refused.param or ""
        if name not in request.defaulted or getattr(sampling, name) == getattr(_UNTOUCHED, name):
            raise refused
        target, told = request.target, self._known(request).left_out
        if name not in told:
            told.add(name)
            where = {"engine": target.grpc, "engine_model": target.model, "default": name}
            log.warning("A default of the model is left out: its engine cannot obey it.", extra=where)
        return changed(sampling, **{name: getattr(_UNTOUCHED, name)})

    async def _call(
        self, request: GenerateRequest, prompt: PreparedPrompt, sampling: SamplingParameters, vocabulary: Vocabulary
    ) -> EngineCall:
        match request.target.dialect:
            case Dialect.TOKENS:
                return tokens.engine_call(request, prompt, sampling)
            case Dialect.FASTERTRANSFORMER:
                sampling = self._seeded(sampling)
                return fastertransformer.engine_call(request, prompt.ids, sampling, await self._declared_by(request))
            case Dialect.TENSORRTLLM:
                sampling = self._seeded(sampling)
                return tensorrtllm.engine_call(await self._prepared(request, prompt, sampling, vocabulary))
            case Dialect.VLLM:
                return vllm.engine_call(await self._prepared(request, prompt, sampling, vocabulary))
            case Dialect.ENCODER | Dialect.SPEECH | Dialect.WHISPER_BLS as other:
                raise UpstreamError(f"This worker does not speak the {other} dialect.")

    def responses(self, request: GenerateRequest, call: EngineCall) -> Responses:
        """Make the call and return the engine's messages; closing them cancels it."""
        address, timeout_s, most = request.target.grpc, request.timeout_s, call.most_bytes
        if not call.streamed:
            return _OneResponse(
                partial(self._triton.infer, address, call.message, timeout_s=timeout_s, most_bytes=most)
            )
        return self._triton.stream(
            address,
            call.message,
            # The first message of a search may be the last one.
            first_timeout_s=timeout_s if call.beam_readers else min(request.first_token_timeout_s, timeout_s),
            inter_timeout_s=request.inter_token_timeout_s,
            timeout_s=timeout_s,
            most_bytes=most,
        )

    def span(self, name: str) -> AbstractContextManager[Span]:
        """Return a span for a part of a call."""
        return self._tracer.span(name)

    def forget(self, request: GenerateRequest) -> None:
        """Read the model's config again at the next call: after a failure another model may be there."""
        known = self._models.get((request.target.grpc, request.target.model))
        if known is not None:
            known.declared = None

    def _seeded(self, sampling: SamplingParameters) -> SamplingParameters:
        """Choose a seed where the client has not: these backends take the same one for all requests without."""
        return sampling if sampling.seed is not None else changed(sampling, seed=self._random_seed())

    async def _prepared(
        self, request: GenerateRequest, prompt: PreparedPrompt, sampling: SamplingParameters, vocabulary: Vocabulary
    ) -> PreparedChoice:
        marks = frozenset[str]() if request.parsing is None else marks_of(request.parsing)
        keep = not request.skip_special_tokens or vocabulary.skips_any(marks)
        declared = await self._declared_by(request)
        return PreparedChoice(request, prompt, sampling, declared, vocabulary.text, keep_special_tokens=keep)

    async def _declared_by(self, request: GenerateRequest) -> DeclaredTensors:
        known = self._known(request)
        if known.declared is None:
            config = await self._triton.model_config(request.target.grpc, request.target.model)
            known.declared = read_declared_tensors(config)
        return known.declared

    def _known(self, request: GenerateRequest) -> _EngineModel:
        key = (request.target.grpc, request.target.model)
        known = self._models.setdefault(key, _EngineModel())
        self._models.move_to_end(key)
        if len(self._models) > _MAX_ENGINES:
            self._models.popitem(last=False)
        return known


class _OneResponse(AsyncIterator[ModelInferResponse]):
    """The only message of a model that answers once; it ends the call."""

    def __init__(self, ask: Callable[[], Awaitable[ModelInferResponse]]) -> None:
        self._ask = ask
        self._ended = False

    async def __anext__(self) -> ModelInferResponse:
        if self._ended:
            raise StopAsyncIteration
        self._ended = True
        return await self._ask()

    async def aclose(self) -> None:
        """Do nothing: whoever is cancelled while it waits has cancelled the call."""

    def finish_in_background(self, within_s: float) -> None:
        """Do nothing: the call has ended."""


def _sampling_of(request: GenerateRequest, variant: int) -> SamplingParameters:
    """Return the parameters of one choice: its own seed, and the prompt's log probabilities when they are shown."""
    sampling = request.sampling
    changes: dict[str, int | None] = {}
    if sampling.seed is not None and variant:
        changes["seed"] = (sampling.seed + variant) % _INT64_MAX
    if request.echo and request.logprobs and sampling.prompt_logprobs is None:
        changes["prompt_logprobs"] = sampling.logprobs or 0
    if sampling.max_tokens == 0:
        changes["max_tokens"] = 1  # an engine makes at least one; it is not shown
    return changed(sampling, **changes) if changes else sampling
