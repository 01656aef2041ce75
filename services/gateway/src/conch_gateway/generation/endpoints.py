"""The two generating endpoints as data, and the pure way from the bytes of a request to where it goes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic

from conch_contracts.messages.message import to_json
from conch_contracts.messages.tokenization import PrepareRequest
from conch_contracts.openai.chat import ChatCompletionRequest
from conch_contracts.openai.completions import CompletionRequest
from conch_contracts.records import ModelKind, Profile, Route
from conch_gateway.constraints.structured_output import constraint_of
from conch_gateway.generation.recurring_parameters import (
    CHAT_PROMPT,
    COMPLETION_PROMPT,
    PromptPlace,
    RecurringParameters,
    key_of,
)
from conch_gateway.generation.resolved import ResolvedGeneration
from conch_gateway.http.body import parse
from conch_gateway.requests import (
    capability_check,
    engine_constraint,
    parameters,
    prompt_length,
    tokenizer_request,
    validation,
)
from conch_gateway.requests.model_lookup import canonical_name, find_route
from conch_gateway.requests.parameters import Shape
from conch_gateway.requests.template_policy import DEFAULT_POLICY, TemplatePolicy
from conch_gateway.requests.validation import R, Validated
from conch_kit.registry.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class GenerationEndpoint(Generic[R]):
    """One generating endpoint."""

    name: str
    id_prefix: str
    prompt: PromptPlace
    validate: Callable[[dict[str, object]], Validated[R]]
    shape: Callable[[R, Profile], Shape]
    prepare: Callable[[R, Route], PrepareRequest]

    def resolve(
        self,
        body: bytes,
        snapshot: Snapshot,
        policy: TemplatePolicy = DEFAULT_POLICY,
        recurring: RecurringParameters | None = None,
    ) -> ResolvedGeneration:
        """Return the request that the body holds; raises a ServiceError that names what is wrong with it."""
        document = parse(body)
        key = None if recurring is None else key_of(self.prompt, document)
        if recurring is not None and key is not None:
            found = recurring.find(key, self.prompt, document, snapshot)
            if found is not None:
                return found
        prompt_length.check_number(document, self.prompt.param, snapshot)
        resolved, work = self._resolve(self.validate(document), snapshot, policy)
        if recurring is not None and key is not None and resolved.with_pictures is None:
            recurring.remember(key, self.prompt, resolved, work)
        return resolved

    def resolve_valid(
        self, validated: Validated[R], snapshot: Snapshot, policy: TemplatePolicy = DEFAULT_POLICY
    ) -> ResolvedGeneration:
        """Return where a valid request goes and what the tokenizer must do for it; raises a ServiceError."""
        resolved, _ = self._resolve(validated, snapshot, policy)
        return resolved

    def _resolve(
        self, validated: Validated[R], snapshot: Snapshot, policy: TemplatePolicy
    ) -> tuple[ResolvedGeneration, PrepareRequest]:
        request = validated.request
        if isinstance(request, ChatCompletionRequest):
            policy.check(request)
        route = find_route(snapshot, request.model, kinds=(ModelKind.LLM,))
        parameters.check_habits(request, route.profile)
        tokenizer_request.check_ids(request, route)
        shape = self.shape(request, route.profile)
        capability_check.check(request, shape, route.dialect)
        work = self.prepare(request, route)
        pictures = work.chat.pictures if work.chat else ()
        if pictures:
            capability_check.check_pictures(pictures[0].param, route.dialect)
        constraint = engine_constraint.constraint(request, route, constraint_of(request))
        if constraint is not None:
            capability_check.check_form(constraint, route.dialect)
        parameters.output_limit(shape, route, tokenizer_request.tokens_at_least(work))
        resolved = ResolvedGeneration(
            route=route,
            name=canonical_name(route, request.model),
            request=request.model_copy(update={self.prompt.param: None}),  # it may be megabytes, and stands in `work`
            shape=shape,
            preparation=b"" if pictures else to_json(work),
            with_pictures=work if pictures else None,
            id_prefix=COMPLETIONS.id_prefix if route.profile is Profile.DENGLIN else self.id_prefix,
            unknown_fields=validated.unknown_fields,
            constraint=constraint,
        )
        return resolved, work


CHAT: GenerationEndpoint[ChatCompletionRequest] = GenerationEndpoint(
    "chat", "chatcmpl-", CHAT_PROMPT, validation.chat, parameters.chat_shape, tokenizer_request.chat
)
COMPLETIONS: GenerationEndpoint[CompletionRequest] = GenerationEndpoint(
    "completions",
    "cmpl-",
    COMPLETION_PROMPT,
    validation.completion,
    parameters.completion_shape,
    tokenizer_request.completion,
)
