"""Pure: from a ModelDeployment and the facts of its folder to the route that the data plane reads, and its engines."""

from collections.abc import Sequence
from dataclasses import fields
from decimal import Decimal
from hashlib import sha256
from typing import Any

from conch_contracts.bad_and_stop_word_ids import parse_words
from conch_contracts.capabilities import LACKS, asks_for_nothing
from conch_contracts.modeldeployment import ModelSpec
from conch_contracts.names import EngineAddress, ServedName
from conch_contracts.records import Engine, GenerationDefaults, ModelKind, Route, RoutingPolicy, TextOutput
from conch_contracts.spec.engine import EngineSpec
from conch_contracts.spec.generation import GenerationSpec
from conch_contracts.spec.routing import RoutingSpec
from conch_contracts.spec.runtimes import ExternalEngineSpec
from conch_operator.routes.chat_profile import chat_profile
from conch_operator.routes.encoder_profile import encoder_profile
from conch_operator.routes.engine_contract import contract_of
from conch_operator.routes.picture_profile import picture_profile
from conch_operator.routes.speech_profile import speech_profile
from conch_operator.state import (
    ClusterEngine,
    DesiredModel,
    EngineContract,
    GenerationFacts,
    SourceFacts,
)

DEFAULT_MAX_LENGTH = 2048
"""Context length when neither the folder nor the ModelDeployment names one."""
_OF_A_FOLDER = frozenset(field.name for field in fields(GenerationFacts))
_DEFAULT_HOLD = int(Route.model_fields["hold_max"].default)


def make_route(
    model: DesiredModel, facts: SourceFacts, names: tuple[ServedName, ...], started: Sequence[int | None] = ()
) -> Route:
    """Return the route of one model, which a worker can speak with, under the names that it keeps.

    `started` are the lengths that its serving engines were started for, of which None is that of the spec.
    """
    spec, contract = model.deployment.spec, contract_of(model)
    return Route(
        model_id=model.id,
        served_names=names,
        kind=spec.kind,
        dialect=contract.dialect,
        engine_model=contract.triton_model,
        text_output=_text_output(spec),
        tokenizer_digest=facts.digest,
        chat_template=facts.chat_template,
        max_model_len=_max_length(spec, facts, started),
        vocab_size=facts.vocab_size,
        eos_token_ids=_eos(spec.generation, facts),
        default=spec.default,
        created=model.created,
        fingerprint=_fingerprint(model, facts),
        profile=spec.compat_profile,
        stream_usage=spec.stream_usage,
        generation=_defaults(spec.generation, facts.generation).model_copy(
            update=dict.fromkeys(unused_defaults(model, facts))
        ),
        chat=chat_profile(spec, facts),
        encoder=encoder_profile(spec, facts),
        pictures=picture_profile(spec, facts, contract.dialect),
        speech=speech_profile(spec, facts, contract.dialect),
        routing=_policy(spec.routing),
    )


def wants_engines(model: DesiredModel) -> bool:
    """Return whether any engine is to serve a model, Conch's or someone else's."""
    return model.deployment.spec.engine.external is not None or model.replicas > 0 or model.wakes


def scaling_fields(model: DesiredModel) -> dict[str, Any]:
    """Return what a route says about engines that may start for a request."""
    fields: dict[str, Any] = {"engines_wanted": wants_engines(model)}
    spec, scaled = model.deployment.spec, model.scaled
    if scaled is None:
        return fields | {"wakes": False, "start_s": None, "start_failed": None}
    start_s = None if scaled.start_s is None else round(scaled.start_s, 1)
    failed = "its status says why." if scaled.failure and not scaled.wakes else None
    return fields | {
        "wakes": scaled.wakes or scaled.tries_edit or failed is not None,
        "start_s": start_s,
        "hold_max": (spec.routing.hold or _DEFAULT_HOLD) if spec.scaling is None else spec.scaling.hold,
        "start_failed": failed,
    }


def unused_defaults(model: DesiredModel, facts: SourceFacts) -> tuple[str, ...]:
    """Return which of the folder's defaults for sampling the model's engines cannot obey, so that no request has them.

    One that the deployment sets itself is no matter of the folder's.
    """
    spec, said = model.deployment.spec.generation, facts.generation
    lacking = LACKS.get(contract_of(model).dialect, {}).keys() & _OF_A_FOLDER
    return tuple(
        name
        for name in sorted(lacking)
        if getattr(spec, name) is None and not asks_for_nothing(name, getattr(said, name))
    )


def external_address(spec: ExternalEngineSpec) -> EngineAddress:
    """Return where an engine that someone else runs is asked: over gRPC where it has that."""
    return EngineAddress(f"http://{spec.http}" if spec.grpc is None else spec.grpc)


def own_engine(engine: ClusterEngine) -> Engine:
    """Return the record of an engine that runs on the cluster: as it was started, whatever its model wants by now."""
    return _record(engine.grpc, engine.contract)


def external_engine(model: DesiredModel, spec: ExternalEngineSpec) -> Engine:
    """Return the record of an engine that someone else runs."""
    record = _record(external_address(spec), contract_of(model))
    return record.model_copy(update={"named_in": model.namespace})


def _record(grpc: EngineAddress, contract: EngineContract) -> Engine:
    return Engine(grpc=grpc, model=contract.triton_model, slots=contract.slots)


def _text_output(spec: ModelSpec) -> TextOutput | None:
    named = spec.engine.external or spec.engine.tensorrtllm
    return None if named is None else named.text_output


def _max_length(spec: ModelSpec, facts: SourceFacts, started: Sequence[int | None]) -> int:
    limits: tuple[int | None, ...]
    if spec.kind is ModelKind.LLM:
        wanted = spec.generation.max_length if spec.engine.cpu is not None else _engine_length(spec.engine)
        lengths = [wanted if length is None else length for length in started] or [wanted]
        chosen = None if spec.engine.cpu is not None else spec.generation.max_length
        limits = chosen, facts.max_position_embeddings, *lengths
    elif spec.kind is ModelKind.TRANSCRIPTION:
        limits = (facts.max_position_embeddings,)
    else:
        limits = spec.max_tokens, facts.encoder.max_tokens
    return min((limit for limit in limits if limit is not None), default=DEFAULT_MAX_LENGTH)


def _engine_length(engine: EngineSpec) -> int | None:
    named = engine.vllm or engine.tensorrtllm
    return None if named is None else named.max_model_len


def _eos(generation: GenerationSpec, facts: SourceFacts) -> tuple[int, ...]:
    end = _sent(generation.end_id)
    found = facts.generation.eos_token_ids
    return found if end is None else tuple(dict.fromkeys((end, *found)))


def _sent(token: int | None) -> int | None:
    return token if token is not None and token >= 0 else None


def _defaults(generation: GenerationSpec, folder: GenerationFacts) -> GenerationDefaults:
    return GenerationDefaults(
        start_id=_sent(generation.start_id),
        end_id=_sent(generation.end_id),
        temperature=_said(generation.temperature, folder.temperature),
        top_p=_said(generation.top_p, folder.top_p),
        top_k=folder.top_k if generation.top_k is None else generation.top_k,
        min_p=_said(generation.min_p, folder.min_p),
        repetition_penalty=_said(generation.repetition_penalty, folder.repetition_penalty),
        fill_in=generation.fill_in,
        bad_words=parse_words(generation.bad_words),
        stop_words=parse_words(generation.stop_words),
        mask_positions=generation.mask_positions,
    )


def _said(by_spec: Decimal | None, by_folder: float | None) -> float | None:
    return by_folder if by_spec is None else float(by_spec)


def _fingerprint(model: DesiredModel, facts: SourceFacts) -> str:
    """Return a name for what is known to shape answers: files, source, runtime, defaults; no weights are read."""
    spec = model.deployment.spec
    quantization = None if spec.engine.cpu is None else spec.engine.cpu.quantization
    shaping = (
        facts.digest,
        facts.chat_template,
        spec.tokenizer.content_format,
        spec.source.model_dump_json(),
        spec.engine.runtime,
        quantization,
        spec.generation.model_dump_json(),
    )
    return f"fp_{sha256(repr(shaping).encode()).hexdigest()[:12]}"


def _policy(routing: RoutingSpec) -> RoutingPolicy:
    return RoutingPolicy(
        strategy=routing.strategy,
        queue_max=routing.queue.max,
        queue_wait_s=routing.queue.wait,
        timeout_s=routing.timeout,
        first_token_timeout_s=routing.first_token_timeout,
        inter_token_timeout_s=routing.inter_token_timeout,
    )
