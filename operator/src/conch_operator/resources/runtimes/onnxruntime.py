"""ONNX Runtime inside Triton: the folder is version 1 in the repository, and Triton reads the tensors from the file."""

from conch_contracts.spec.engine import EngineSpec, is_accelerator
from conch_contracts.spec.runtimes import OnnxRuntimeEngineSpec
from conch_operator.resources.runtimes.runtime_server import RuntimeServer
from conch_operator.routes.engine_contract import contract_of
from conch_operator.state import DesiredModel
from conch_operator.triton.config_pbtxt import document, parameter_lines, text


def make_server(model: DesiredModel, spec: OnnxRuntimeEngineSpec, folder: str) -> RuntimeServer:
    """Return the server of a model that ONNX Runtime runs."""
    contract = contract_of(model)
    name = contract.triton_model
    kind = "KIND_GPU" if has_gpu(model.deployment.spec.engine) else "KIND_CPU"
    lines = [
        f"name: {text(name)}",
        'backend: "onnxruntime"',
        f"default_model_filename: {text(spec.file)}",
        f"max_batch_size: {spec.max_batch_size}",
        f"instance_group [ {{ count: {spec.instances} kind: {kind} }} ]",
        *parameter_lines({"intra_op_thread_count": str(spec.threads)} if spec.threads else {}),
    ]
    return RuntimeServer(contract, {f"{name}/config.pbtxt": document(lines)}, version_folder=folder)


def has_gpu(engine: EngineSpec) -> bool:
    """Return whether the engine's container gets a GPU, or a part of one."""
    limits = (engine.resources and engine.resources.limits) or {}
    return any(is_accelerator(name) for name in limits)
