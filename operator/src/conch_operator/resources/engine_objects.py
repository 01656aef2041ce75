"""Everything that is made for one model, in the order in which it is applied."""

from typing import Any

from conch_contracts.spec.runtimes import TensorRtLlmBackend
from conch_operator.agent.tokens import AgentTokens
from conch_operator.resources.disruption_budget import make_disruption_budget
from conch_operator.resources.engine_deployment import make_engine_deployment
from conch_operator.resources.engine_image import NotSupported
from conch_operator.resources.metadata import child_name, metadata, selector, with_hash
from conch_operator.resources.network_policy import make_network_policy
from conch_operator.resources.runtimes import (
    cpu,
    fastertransformer,
    onnxruntime,
    python,
    tensorrtllm,
    tensorrtllm_llm_api,
    vllm,
)
from conch_operator.resources.runtimes.runtime_server import RuntimeServer
from conch_operator.resources.source_volume import SourceVolume, source_volume
from conch_operator.settings import EngineSettings
from conch_operator.state import DesiredModel

Object = dict[str, Any]


def make_engine_objects(model: DesiredModel, settings: EngineSettings, tokens: AgentTokens) -> tuple[Object, ...]:
    """Return what runs a model's engines; raises NotSupported."""
    source = source_volume(model.deployment.spec)
    server = make_server(model, source)
    policy: Object | None = None
    if settings.network_policy.enabled:
        meta = metadata(model, child_name(model))
        downloads = model.deployment.spec.source.downloaded is not None
        policy = make_network_policy(meta, selector(model), settings.network_policy, engine=True, downloads=downloads)
    made = (
        policy,
        make_disruption_budget(model),
        make_engine_deployment(model, server, source, settings, tokens),
    )
    return tuple(with_hash(one) for one in made if one is not None)


def make_server(model: DesiredModel, source: SourceVolume) -> RuntimeServer:
    """Return the Triton server of a model; raises NotSupported."""
    engine, folder = model.deployment.spec.engine, source.engine_folder
    if engine.cpu is not None:
        return cpu.make_server(model, engine.cpu, folder)
    if engine.vllm is not None:
        return vllm.make_server(model, engine.vllm, folder)
    if engine.fastertransformer is not None:
        return fastertransformer.make_server(model, engine.fastertransformer, folder)
    if engine.onnxruntime is not None:
        return onnxruntime.make_server(model, engine.onnxruntime, folder)
    if engine.python is not None:
        return python.make_server(model, engine.python, folder)
    if engine.tensorrtllm is not None and engine.tensorrtllm.backend is TensorRtLlmBackend.PYTORCH:
        return tensorrtllm_llm_api.make_server(model, engine.tensorrtllm, folder)
    if engine.tensorrtllm is not None and engine.tensorrtllm.nodes == 1:
        return tensorrtllm.make_server(model, engine.tensorrtllm, folder)
    raise NotSupported("Engines that span several pods are not started by this version; set nodes to 1.")
