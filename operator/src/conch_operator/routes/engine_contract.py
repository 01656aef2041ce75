"""Pure: how requests reach the model inside an engine: its name in Triton, its dialect, how many it takes at once."""

import hashlib

from conch_contracts.dialects.encoder import LAST_HIDDEN_STATE, LOGITS
from conch_contracts.records import Dialect, Engine, ModelKind
from conch_contracts.spec.runtimes import Runtime
from conch_operator.state import DesiredModel, EngineContract

MODEL = "model"
"""What a model is called inside Triton where nobody names it."""

BATCHES_IN_FLIGHT = 4
"""Batches' worth of requests that the gateway sends to one cpu engine: one decodes, the others wait where they can join
at the next step instead of a network hop away."""

_VLLM_SEQUENCES = 256
"""vLLM's own default for max_num_seqs."""
_DEFAULT_SLOTS = int(Engine.model_fields["slots"].default)


ENCODER_SLOTS = 256
"""Batches of rows that the gateway sends to one encoder's engine: the worker puts rows of many requests into each call,
so there must be many requests for it to choose from."""


def contract_of(model: DesiredModel) -> EngineContract:
    """Return the contract of a model's engines."""
    if model.deployment.spec.kind.encodes:
        return _encoder_contract(model)
    if model.deployment.spec.kind is ModelKind.TRANSCRIPTION:
        return _speech_contract(model)
    engine = model.deployment.spec.engine
    if engine.cpu is not None:
        slots = BATCHES_IN_FLIGHT * engine.cpu.max_batch_size
        return EngineContract(MODEL, Dialect.TOKENS, slots, model.deployment.spec.generation.max_length)
    if engine.external is not None:
        name = engine.external.model_name or model.deployment.metadata.name
        return EngineContract(name, engine.external.dialect or Dialect.TOKENS, _DEFAULT_SLOTS)
    if engine.fastertransformer is not None:
        spec = engine.fastertransformer
        return EngineContract(spec.model_name, Dialect.FASTERTRANSFORMER, spec.max_batch_size)
    if engine.vllm is not None:
        vllm = engine.vllm
        return EngineContract(MODEL, Dialect.VLLM, vllm.max_num_seqs or _VLLM_SEQUENCES, vllm.max_model_len)
    if engine.tensorrtllm is not None:
        trt = engine.tensorrtllm
        return EngineContract(trt.model_name, Dialect.TENSORRTLLM, trt.max_batch_size, trt.max_model_len)
    assert engine.runtime is Runtime.PYTHON
    return EngineContract(MODEL, Dialect.TOKENS, _DEFAULT_SLOTS)


def encoder_output(kind: ModelKind) -> str | None:
    """Return what the cpu runtime gives for a kind of encoder; None for kinds that are none."""
    if not kind.encodes:
        return None
    return LAST_HIDDEN_STATE if kind is ModelKind.EMBEDDING else LOGITS


def _encoder_contract(model: DesiredModel) -> EngineContract:
    engine = model.deployment.spec.engine
    if engine.external is not None:
        name = engine.external.model_name or model.deployment.metadata.name
        return EngineContract(name, Dialect.ENCODER, ENCODER_SLOTS)
    name = MODEL if model.deployment.spec.placement is None else _name_among_others(model)
    return EngineContract(name, Dialect.ENCODER, ENCODER_SLOTS)


def _name_among_others(model: DesiredModel) -> str:
    """Return a name that no other model of a pool has, nor this one after an edit: callers remember what is there."""
    made_from = model.deployment.spec.model_dump_json(include={"kind", "source", "engine", "tensors"})
    told = hashlib.sha256(f"{model.namespace} {made_from}".encode()).hexdigest()[:8]
    return f"{model.deployment.metadata.name}-{told}"


def _speech_contract(model: DesiredModel) -> EngineContract:
    engine = model.deployment.spec.engine
    if engine.cpu is not None:
        return EngineContract(MODEL, Dialect.SPEECH, BATCHES_IN_FLIGHT * engine.cpu.max_batch_size)
    if engine.external is not None:
        name = engine.external.model_name or model.deployment.metadata.name
        return EngineContract(name, engine.external.dialect or Dialect.SPEECH, _DEFAULT_SLOTS)
    return EngineContract(MODEL, Dialect.SPEECH, _DEFAULT_SLOTS)
