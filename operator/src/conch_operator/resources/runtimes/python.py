"""A model of Triton's Python backend that the user wrote: the folder, with its model.py, stands as version 1."""

from conch_contracts.records import Dialect
from conch_contracts.spec.runtimes import PythonEngineSpec
from conch_operator.resources.runtimes.runtime_server import RuntimeServer
from conch_operator.routes.engine_contract import contract_of, encoder_output
from conch_operator.state import DesiredModel
from conch_operator.triton.cpu_repository import encoder_config, speech_config, tokens_config


def make_server(model: DesiredModel, spec: PythonEngineSpec, folder: str) -> RuntimeServer:
    """Return the server of a model that speaks the `tokens`, `speech` or `encoder` dialect from Python."""
    contract = contract_of(model)
    name = contract.triton_model
    environment = {"EXECUTION_ENV_PATH": f"{folder}/{spec.environment}"} if spec.environment else {}
    numbers = {"instances": spec.instances, "batch": spec.max_batch_size}
    output = encoder_output(model.deployment.spec.kind)
    if contract.dialect is Dialect.SPEECH:
        config = speech_config(name, environment, **numbers)
    elif output is None:
        config = tokens_config(name, environment, **numbers)
    else:
        config = encoder_config(name, output, environment, **numbers)
    options = {"disable-auto-complete-config": None}
    return RuntimeServer(contract, {f"{name}/config.pbtxt": config}, options, version_folder=folder)
