"""From a resolved request and its counted prompt to the message for a worker; pure."""

from dataclasses import dataclass

from conch_contracts.messages.generation import (
    Api,
    EngineTarget,
    GenerateRequest,
    PreparedPrompt,
    SamplingParameters,
)
from conch_contracts.messages.message import InvalidMessage, Written, changed, from_json, to_json, written
from conch_contracts.messages.tokenization import PrepareResponse
from conch_contracts.names import EngineAddress
from conch_contracts.records import Engine
from conch_gateway.generation.resolved import ResolvedGeneration
from conch_gateway.placement.model_queue import slots_for
from conch_gateway.requests import engine_constraint, parameters, thinking, tokenizer_request
from conch_gateway.requests.answer_parsing import parsing_of
from conch_kit.json_bytes import json_bytes

_WITH_DETAILS = (Api.CHAT, Api.COMPLETION)
_DRAWING = ("temperature", "top_p", "presence_penalty", "frequency_penalty")
"""What an answer of the Responses API tells of how its tokens were drawn."""


@dataclass(frozen=True, slots=True)
class GenerationJob:
    """A request whose prompt is counted: all but the engine is decided."""

    resolved: ResolvedGeneration
    prompts: Written[PreparedPrompt]
    """As a worker gets them. There may be megabytes of pictures, which a waiting request keeps once."""
    prompt_tokens: int
    """How many ids an engine gets, all prompts together."""
    draft: GenerateRequest
    max_tokens: int
    """How long each choice may get."""
    request_id: str
    response_id: str
    created: int

    @classmethod
    def of(
        cls, resolved: ResolvedGeneration, prepared: bytes, *, ids: tuple[str, str], created: int
    ) -> "GenerationJob":
        """Return the job for the tokenizer's answer; raises InvalidMessage, and InvalidRequest for too small a context.

        `ids` are the request's and the answer's.
        """
        answer = from_json(PrepareResponse, prepared)
        if not answer.prompts:
            raise InvalidMessage("no prompts")
        draft = _draft(resolved, answer)
        limit = parameters.output_limit(resolved.shape, resolved.route, parameters.longest(answer))
        parameters.check_lengths(draft.sampling.min_tokens, limit)
        tokens = sum(len(prompt.ids) for prompt in answer.prompts)
        return cls(resolved, written(answer.prompts), tokens, draft, limit, *ids, created)

    @property
    def sequences(self) -> int:
        """How many choices an engine works on at once."""
        return self.prompts.count * self.draft.candidates

    def message(self, engine: Engine, *, timeout_s: float) -> bytes:
        """Return the message that asks a worker to run this job on `engine`."""
        target = changed(
            self.draft.target,
            grpc=engine.grpc,
            named_in=engine.named_in,
            model=engine.model or self.resolved.route.engine_model,
            slots=slots_for(engine, self.sequences),
        )
        return to_json(
            changed(
                self.draft,
                request_id=self.request_id,
                response_id=self.response_id,
                created=self.created,
                target=target,
                prompts=self.prompts.json,
                sampling=changed(self.draft.sampling, max_tokens=self.max_tokens),
                cut_to_context=self.max_tokens < (self.resolved.shape.max_tokens or 0),
                timeout_s=timeout_s,
            )
        )

    def response_fields(self) -> dict[str, object]:
        """Return what an answer of the Responses API repeats of its request; nothing for other APIs."""
        return _response_fields(self.resolved, self.draft.sampling)


def _draft(resolved: ResolvedGeneration, answer: PrepareResponse) -> GenerateRequest:
    """Return the draft that an earlier request with these parameters left, or make it now; raises InvalidRequest."""
    if len(answer.prompts) > 1:
        return _make_draft(resolved, answer)
    key = thinking.begun(resolved.route, answer.prompts[0].text), answer.bad_words, answer.stop_words, answer.marks
    drafts = resolved.findings.drafts
    found = drafts.get(key)
    if found is None:
        found = drafts[key] = _make_draft(resolved, answer)
    return found


def _make_draft(resolved: ResolvedGeneration, answer: PrepareResponse) -> GenerateRequest:
    request, shape, route = resolved.request, resolved.shape, resolved.route
    parsing = parsing_of(request, route, answer, resolved.constraint)
    drawn = parameters.sampling(request, shape, route, answer)
    sampling = engine_constraint.constrained(drawn, request, resolved.constraint, answer, parsing)
    return GenerateRequest(
        request_id="",
        response_id="",
        api=shape.api,
        model=resolved.name,
        created=0,
        target=EngineTarget(
            grpc=EngineAddress(""),
            model="",
            dialect=route.dialect,
            text_output=route.text_output,
            tokenizer_digest=route.tokenizer_digest,
        ),
        prompts=(),
        n=request.n or 1,
        best_of=parameters.best_of(request),
        sampling=sampling,
        defaulted=parameters.defaulted(request, route),
        grammar_param=resolved.constraint.param if resolved.constraint else None,
        bad_words_param=parameters.bad_words_param(request),
        backend=parameters.backend_options(request, route, answer),
        stop=tokenizer_request.stop_strings(request),
        include_stop_str_in_output=bool(request.include_stop_str_in_output),
        skip_special_tokens=request.skip_special_tokens is not False,
        echo=shape.echo,
        role=shape.role,
        logprobs=shape.alternatives is not None,
        parsing=parsing,
        stream=resolved.stream,
        include_usage=parameters.includes_usage(request, route),
        response_fields=json_bytes(_response_fields(resolved, sampling)).decode(),
        fingerprint=route.fingerprint,
        details=parameters.details(request, shape, route) if shape.api in _WITH_DETAILS else None,
        first_token_timeout_s=route.routing.first_token_timeout_s,
        inter_token_timeout_s=route.routing.inter_token_timeout_s,
    )


def _response_fields(resolved: ResolvedGeneration, sampling: SamplingParameters) -> dict[str, object]:
    fields = resolved.answer_fields
    return {} if fields is None else {**fields, **{name: getattr(sampling, name) for name in _DRAWING}}
