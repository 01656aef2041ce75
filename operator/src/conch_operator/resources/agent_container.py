"""The container of the agent, from the operator's own image: beside each engine, or alone in a source reader's pod."""

from typing import Any

from conch_contracts.names import AGENT_PORT
from conch_operator.agent.settings import FolderAgentSettings
from conch_operator.model_folder.reader import needs_of
from conch_operator.resources.container_resources import REPORTING, resources_beside
from conch_operator.resources.source_volume import SourceVolume
from conch_operator.settings import EngineSettings
from conch_operator.state import DesiredModel

Object = dict[str, Any]

AGENT = "agent"
_DEFAULTS = {name: field.default for name, field in FolderAgentSettings.model_fields.items()}
"""What the agent takes for granted. Pods do not say it: the API server keeps account of each field of each pod."""


def agent_container(model: DesiredModel, source: SourceVolume, settings: EngineSettings, token_hash: str) -> Object:
    """Return the container; as a sidecar it outlives the engine's. `token_hash`: of what the operator asks it with."""
    needs = needs_of(model.deployment.spec)
    flags = {
        "needs_weights": needs.weights,
        "takes_onnx": needs.onnx,
        "needs_speech": needs.speech,
        "needs_config": needs.config,
        "needs_template": needs.template,
        "downloads": bool(source.download_mounts),
    }
    env = {
        "CONCH_FOLDER": source.agent_folder,
        "CONCH_SHOWN_FOLDER": source.engine_folder,
        "CONCH_TOKEN_SHA256": token_hash,
        **{f"CONCH_{name.upper()}": str(said).lower() for name, said in flags.items() if said is not _DEFAULTS[name]},
    }
    probe = {"httpGet": {"path": "/livez", "port": AGENT_PORT}, "timeoutSeconds": 5}
    return {
        "name": AGENT,
        "image": settings.agent_image,
        "command": ["conch-engine-agent"],
        "env": [{"name": name, "value": value} for name, value in env.items()],
        "ports": [{"name": "agent", "containerPort": AGENT_PORT}],
        "resources": resources_beside(REPORTING, settings, model.deployment.spec.engine),
        "startupProbe": probe | {"periodSeconds": 1, "failureThreshold": 60},
        "livenessProbe": probe | {"periodSeconds": 20, "failureThreshold": 3},
        "volumeMounts": list(source.agent_mounts),
    }
