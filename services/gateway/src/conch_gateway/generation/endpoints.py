"""The two generating endpoints as data, and the pure way from the bytes of a request to the message for a worker."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic

import orjson

from conch_contracts.messages.answer_parsing import Parsing
from conch_contracts.messages.generation import (
    BackendOptions,
    Details,
    EngineTarget,
    GenerateRequest,
    SamplingParameters,
)
from conch_contracts.messages.message import Message
from conch_contracts.messages.tokenization import PrepareRequest, PrepareResponse
from conch_contracts.openai.chat import ChatCompletionRequest
from conch_contracts.openai.completions import CompletionRequest
from conch_contracts.openai.sampling import SamplingFields, is_on
from conch_contracts.records import Engine, ModelKind, Profile, Route
from conch_gateway.constraints.structured_output import Constraint, constraint_of
from conch_gateway.http.body import parse
from conch_gateway.placement.admission import places
from conch_gateway.requests import (
    capability_check,
    engine_constraint,
    parameters,
    prompt_length,
    tokenizer_request,
    validation,
)
from conch_gateway.requests.answer_parsing import parsing_of
from conch_gateway.requests.model_lookup import canonical_name, find_route
from conch_gateway.requests.parameters import Shape
from conch_gateway.requests.template_policy import DEFAULT_POLICY, TemplatePolicy
from conch_gateway.requests.validation import R, Validated
from conch_kit.registry.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class ResolvedGeneration:
    """A valid request and where it goes; what the tokenizer must do for it is already written."""

    route: Route
    name: str
    """The model's name that the answer carries."""
    request: SamplingFields
    shape: Shape
    preparation: bytes
    id_prefix: str
    unknown_fields: int
    answer_fields: Mapping[str, object] | None = None
    """Of the Responses API: what the answer says of its request."""
    constraint: Constraint | None = None
    """What the answer must look like."""

    @property
    def stream(self) -> bool:
        """Whether the answer is a stream."""
        return is_on(self.request.stream)

    @property
    def priority(self) -> int:
        """The lower goes first among those that wait for an engine."""
        return self.request.priority or 0

    def answer_id(self, made: str) -> str:
        """Return the answer's id: the client's own where it named one, else the one that was made."""
        name = self.request.request_id or made
        return name if name.startswith(self.id_prefix) else self.id_prefix + name


@dataclass(frozen=True, slots=True)
class GenerationEndpoint(Generic[R]):
    """One generating endpoint."""

    name: str
    id_prefix: str
    prompt_param: str
    """Which parameter holds the prompt."""
    validate: Callable[[dict[str, object]], Validated[R]]
    shape: Callable[[R, Profile], Shape]
    prepare: Callable[[R, Route], PrepareRequest]

    def resolve(self, body: bytes, snapshot: Snapshot, policy: TemplatePolicy = DEFAULT_POLICY) -> ResolvedGeneration:
        """Return the request that the body holds; raises a ServiceError that names what is wrong with it."""
        document = parse(body)
        prompt_length.check_number(document, self.prompt_param, snapshot)
        return self.resolve_valid(self.validate(document), snapshot, policy)

    def resolve_valid(
        self, validated: Validated[R], snapshot: Snapshot, policy: TemplatePolicy = DEFAULT_POLICY
    ) -> ResolvedGeneration:
        """Return where a valid request goes and what the tokenizer must do for it; raises a ServiceError."""
        request = validated.request
        if isinstance(request, ChatCompletionRequest):
            policy.check(request)
        route = find_route(snapshot, request.model, kinds=(ModelKind.LLM,))
        parameters.check_habits(request, route.profile)
        tokenizer_request.check_ids(request, route)
        shape = self.shape(request, route.profile)
        capability_check.check(request, shape, route.dialect)
        work = self.prepare(request, route)
        constraint = engine_constraint.constraint(request, route, constraint_of(request))
        if constraint is not None:
            capability_check.check_form(constraint, route.dialect)
        parameters.output_limit(shape, route, tokenizer_request.tokens_at_least(work))
        return ResolvedGeneration(
            route=route,
            name=canonical_name(route, request.model),
            request=request,
            shape=shape,
            preparation=encode(work),
            id_prefix=COMPLETIONS.id_prefix if route.profile is Profile.DENGLIN else self.id_prefix,
            unknown_fields=validated.unknown_fields,
            constraint=constraint,
        )


CHAT: GenerationEndpoint[ChatCompletionRequest] = GenerationEndpoint(
    "chat", "chatcmpl-", "messages", validation.chat, parameters.chat_shape, tokenizer_request.chat
)
COMPLETIONS: GenerationEndpoint[CompletionRequest] = GenerationEndpoint(
    "completions", "cmpl-", "prompt", validation.completion, parameters.completion_shape, tokenizer_request.completion
)


@dataclass(frozen=True, slots=True)
class GenerationJob:
    """A request whose prompt is counted: all but the engine is decided."""

    resolved: ResolvedGeneration
    prepared: PrepareResponse
    sampling: SamplingParameters
    backend: BackendOptions
    parsing: Parsing | None
    details: Details | None
    request_id: str
    response_id: str
    created: int

    @classmethod
    def of(
        cls, resolved: ResolvedGeneration, prepared: bytes, *, ids: tuple[str, str], created: int
    ) -> "GenerationJob":
        """Return the job for the tokenizer's answer; raises InvalidRequest when the context is too small.

        `ids` are the request's and the answer's.
        """
        answer = PrepareResponse.model_validate_json(prepared)
        route = resolved.route
        found = parsing_of(resolved.request, route, answer)
        sampling = parameters.sampling(resolved.request, resolved.shape, route, answer)
        return cls(
            resolved=resolved,
            prepared=answer,
            sampling=engine_constraint.constrained(sampling, resolved.request, resolved.constraint, answer, found),
            backend=parameters.backend_options(resolved.request, route, answer),
            parsing=found,
            details=None
            if resolved.answer_fields is not None
            else parameters.details(resolved.request, resolved.shape, route),
            request_id=ids[0],
            response_id=ids[1],
            created=created,
        )

    @property
    def sequences(self) -> int:
        """How many choices an engine works on at once."""
        request = self.resolved.request
        return len(self.prepared.prompts) * (parameters.best_of(request) or request.n or 1)

    def message(self, engine: Engine, *, timeout_s: float) -> bytes:
        """Return the message that asks a worker to run this job on `engine`."""
        request, shape, route = self.resolved.request, self.resolved.shape, self.resolved.route
        return encode(
            GenerateRequest(
                request_id=self.request_id,
                response_id=self.response_id,
                api=shape.api,
                model=self.resolved.name,
                created=self.created,
                target=EngineTarget(
                    grpc=engine.grpc,
                    model=engine.model or route.engine_model,
                    dialect=route.dialect,
                    text_output=route.text_output,
                    tokenizer_digest=route.tokenizer_digest,
                    slots=places(engine, self.sequences),
                ),
                prompts=self.prepared.prompts,
                n=request.n or 1,
                best_of=parameters.best_of(request),
                sampling=self.sampling,
                defaulted=parameters.defaulted(request, route),
                grammar_param=self.resolved.constraint.param if self.resolved.constraint else None,
                bad_words_param=parameters.bad_words_param(request),
                backend=self.backend,
                stop=tokenizer_request.stop_strings(request),
                include_stop_str_in_output=bool(request.include_stop_str_in_output),
                skip_special_tokens=request.skip_special_tokens is not False,
                echo=shape.echo,
                role=shape.role,
                logprobs=shape.alternatives is not None,
                parsing=self.parsing,
                stream=self.resolved.stream,
                include_usage=parameters.includes_usage(request, route),
                response_fields=self._response_fields(),
                fingerprint=route.fingerprint,
                details=self.details,
                timeout_s=timeout_s,
                first_token_timeout_s=route.routing.first_token_timeout_s,
                inter_token_timeout_s=route.routing.inter_token_timeout_s,
            )
        )

    def _response_fields(self) -> str:
        fields, sampling = self.resolved.answer_fields, self.sampling
        if fields is None:
            return "{}"
        drawing = sampling.model_dump(include={"temperature", "top_p", "presence_penalty", "frequency_penalty"})
        return orjson.dumps({**fields, **drawing}).decode()


def encode(message: Message) -> bytes:
    """Return an internal message as JSON; orjson does it in a third of the time that pydantic takes."""
    return orjson.dumps(message, default=vars, option=orjson.OPT_NON_STR_KEYS)
