"""Pure: how requests reach the model inside an engine: its name in Triton, its dialect, how many it takes at once."""

from conch_contracts.records import Dialect, Engine
from conch_contracts.spec.engine import Runtime
from conch_operator.state import DesiredModel, EngineContract

MODEL = "model"
"""What a model is called inside Triton where nobody names it."""

BATCHES_IN_FLIGHT = 4
"""Batches' worth of requests that the gateway sends to one cpu engine: one decodes, the others wait where they can join
at the next step instead of a network hop away."""

_VLLM_SEQUENCES = 256
"""vLLM's own default for max_num_seqs."""
_DEFAULT_SLOTS = int(Engine.model_fields["slots"].default)


def contract_of(model: DesiredModel) -> EngineContract:
    """Return the contract of a model's engines; without a dialect there is no worker for it yet."""
    engine = model.deployment.spec.engine
    if engine.cpu is not None:
        return EngineContract(MODEL, Dialect.TOKENS, BATCHES_IN_FLIGHT * engine.cpu.max_batch_size)
    if engine.external is not None:
        name = engine.external.model_name or model.deployment.metadata.name
        return EngineContract(name, engine.external.dialect or Dialect.TOKENS, _DEFAULT_SLOTS)
    if engine.fastertransformer is not None:
        spec = engine.fastertransformer
        return EngineContract(spec.model_name, Dialect.FASTERTRANSFORMER, spec.max_batch_size)
    if engine.vllm is not None:
        return EngineContract(MODEL, None, engine.vllm.max_num_seqs or _VLLM_SEQUENCES)
    if engine.tensorrtllm is not None:
        return EngineContract(engine.tensorrtllm.model_name, None, engine.tensorrtllm.max_batch_size)
    if engine.onnxruntime is not None:
        return EngineContract(MODEL, None, engine.onnxruntime.instances * engine.onnxruntime.max_batch_size)
    assert engine.runtime is Runtime.PYTHON
    return EngineContract(MODEL, Dialect.TOKENS, _DEFAULT_SLOTS)
