"""Everything that is made for one model, in the order in which it is applied."""

from typing import Any

from conch_contracts.spec.engine import Runtime
from conch_operator.resources.disruption_budget import make_disruption_budget
from conch_operator.resources.engine import make_engine_deployment
from conch_operator.resources.metadata import with_hash
from conch_operator.resources.repository import make_repository
from conch_operator.resources.runtimes import cpu
from conch_operator.resources.runtimes.server import RuntimeServer
from conch_operator.resources.service import make_engine_service
from conch_operator.resources.source_volume import SourceVolume, source_volume
from conch_operator.settings import EngineSettings
from conch_operator.state import DesiredModel

Object = dict[str, Any]


class NotSupported(Exception):
    """A runtime or an image that this installation does not have; the message says what to set."""


def make_engine_objects(model: DesiredModel, settings: EngineSettings) -> tuple[Object, ...]:
    """Return what runs a model's engines; raises NotSupported, SourceNotSupported."""
    source = source_volume(model.deployment.spec.source)
    server = make_server(model, source)
    engine = model.deployment.spec.engine
    if engine.image is None and engine.runtime not in settings.images:
        raise NotSupported(f"No image for the runtime {engine.runtime} is configured; set spec.engine.image.")
    made = (
        make_repository(model, server.repository),
        make_engine_service(model),
        make_disruption_budget(model),
        make_engine_deployment(model, server, source, settings),
    )
    return tuple(with_hash(one) for one in made)


def make_server(model: DesiredModel, source: SourceVolume) -> RuntimeServer:
    """Return the Triton server of a model; raises NotSupported."""
    engine = model.deployment.spec.engine
    folder = source.engine_folder
    match engine.runtime:
        case Runtime.CPU if engine.cpu is not None:
            return cpu.make_server(model, engine.cpu, folder)
        case runtime:
            raise NotSupported(f"The runtime {runtime} is not started by this version.")
