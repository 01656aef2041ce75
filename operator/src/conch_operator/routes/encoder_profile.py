"""Pure: how the output of an encoder becomes an answer: what the ModelDeployment says, else what the folder says."""

from collections.abc import Mapping

from conch_contracts.dialects import encoder as dialect
from conch_contracts.modeldeployment import ModelSpec
from conch_contracts.records import Activation, EncoderProfile, ModelKind, Pooling
from conch_contracts.spec.encoder import EmbeddingSpec, Process, TensorsSpec
from conch_operator.state import EncoderFacts, SourceFacts

_USUAL_TENSORS = TensorsSpec()


def encoder_profile(spec: ModelSpec, facts: SourceFacts) -> EncoderProfile:
    """Return the profile that goes into a model's route; that of another kind says nothing."""
    if not spec.kind.encodes:
        return EncoderProfile()
    said, chosen = facts.encoder, spec.embedding or EmbeddingSpec()
    tensors = spec.tensors or _USUAL_TENSORS
    return EncoderProfile(
        pooling=chosen.pooling or said.pooling or _own_pooling(spec, facts),
        normalize=_normalizes(tensors.output.process, said),
        activation=_activation(spec.kind, tensors.output.process, said),
        matryoshka=said.matryoshka if chosen.matryoshka is None else chosen.matryoshka,
        labels=said.labels if spec.kind is ModelKind.CLASSIFY else (),
        truncate=spec.max_tokens is not None,
        inputs=tensor_inputs(spec),
        output=tensors.output.name or _own_output(spec, facts),
        version=facts.weights,
        cache_ttl_s=None if spec.cache is None else spec.cache.ttl,
    )


def encodes_pictures(spec: ModelSpec, facts: SourceFacts) -> bool:
    """Return whether a model makes vectors of texts and of pictures."""
    return spec.kind is ModelKind.EMBEDDING and facts.encoder.sees


def sees_among_texts(spec: ModelSpec, facts: SourceFacts) -> bool:
    """Return whether a model makes one vector of messages with the pictures in them, as the cpu runtime does."""
    return spec.kind is ModelKind.EMBEDDING and spec.engine.cpu is not None and facts.sees


def tensor_inputs(spec: ModelSpec) -> Mapping[str, str]:
    """Return what the model calls its inputs, where the ModelDeployment says so."""
    inputs = (spec.tensors or _USUAL_TENSORS).inputs
    named = zip(dialect.INPUTS, (inputs.input_ids, inputs.attention_mask, inputs.token_type_ids), strict=True)
    return {logical: name for logical, name in named if name is not None}


def tensor_output(spec: ModelSpec) -> str | None:
    """Return the output that the ModelDeployment names."""
    return (spec.tensors or _USUAL_TENSORS).output.name


def _own_pooling(spec: ModelSpec, facts: SourceFacts) -> Pooling:
    """Return the pooling where nothing says one: of a language model's tokens the last alone has seen all others."""
    return Pooling.LAST if sees_among_texts(spec, facts) else Pooling.MEAN


def _own_output(spec: ModelSpec, facts: SourceFacts) -> str | None:
    """Return the output that the cpu runtime fills, where its model declares several; None elsewhere."""
    seen = spec.engine.cpu is not None and encodes_pictures(spec, facts)
    return dialect.TEXT_EMBEDS if seen else None


def _normalizes(process: Process | None, said: EncoderFacts) -> bool:
    if process is not None:
        return process is Process.NORMALIZE
    return True if said.normalize is None else said.normalize


def _activation(kind: ModelKind, process: Process | None, said: EncoderFacts) -> Activation:
    if process is Process.NONE or kind is ModelKind.EMBEDDING:
        return Activation.NONE
    several = len(said.labels) > 1 and not said.several_labels
    return Activation.SOFTMAX if several else Activation.SIGMOID
