"""Where vLLM keeps what it compiles: on a claim where the model has one that may be written, else in the pod.

An engine sees nothing of the claim but its own cache, whose folder is named by the image, the model and all settings,
and inside it one by the packages that are found in the image: a tag may be moved. So no engine reads what another image
or other settings have compiled. The model's folder stays read-only beside it.
"""

from dataclasses import dataclass
from typing import Any

from conch_operator.resources.container_resources import COPYING, resources_beside
from conch_operator.resources.engine_image import engine_image
from conch_operator.resources.metadata import digest
from conch_operator.resources.runtimes.runtime_server import RuntimeServer
from conch_operator.resources.source_volume import SOURCE_VOLUME
from conch_operator.settings import EngineSettings
from conch_operator.state import DesiredModel

Object = dict[str, Any]

COMPILED = "/tmp/vllm"
"""What an engine is told: a folder of the pod, or a link to the one on the claim."""
_VOLUME = "compiled"
_CLAIM_MOUNT = "/conch/claim"
_CACHE_MOUNT = "/conch/compiled"
_SCRIPT = """
import hashlib, importlib.metadata, os, sys
claim, folder, mount, link = sys.argv[1:]
packages = sorted({f"{found.metadata['Name']} {found.version}" for found in importlib.metadata.distributions()})
build = hashlib.sha256("\\n".join(packages).encode()).hexdigest()[:12]
try:
    os.makedirs(os.path.join(claim, folder, build), exist_ok=True)
except OSError as error:
    sys.exit(f"The compile cache cannot be made on the claim: {error}. Let group 65532 write it, or name another claim "
             "in engine.vllm.compileCache.")
if os.path.lexists(link):
    os.remove(link)
os.symlink(os.path.join(mount, build), link)
"""


@dataclass(frozen=True, slots=True)
class CompileCache:
    """What a pod needs for a cache on a claim."""

    init_container: Object
    volumes: tuple[Object, ...]
    """Beside those of the source."""
    mounts: tuple[Object, ...]
    """In the engine's container."""


def compile_cache(model: DesiredModel, server: RuntimeServer, settings: EngineSettings) -> CompileCache | None:
    """Return the cache of a model's engines on its claim; None where it stays in the pod."""
    spec, image = model.deployment.spec, engine_image(model, settings)
    claim = spec.compile_claim
    if claim is None:
        return None
    shares = claim == spec.source.claim_name
    volume = SOURCE_VOLUME if shares else _VOLUME
    made_from = [image, spec.source.model_dump(mode="json"), dict(server.repository)]
    settings_of_engine = [list(spec.engine.args), [one.model_dump(mode="json") for one in spec.engine.env]]
    folder = f".conch/vllm/{digest([*made_from, *settings_of_engine])}"
    container = {
        "name": "compile-cache",
        "image": image,
        "command": ["python3", "-c", _SCRIPT, _CLAIM_MOUNT, folder, _CACHE_MOUNT, COMPILED],
        "resources": resources_beside(COPYING, settings, spec.engine),
        "volumeMounts": [{"name": volume, "mountPath": _CLAIM_MOUNT}, {"name": "tmp", "mountPath": "/tmp"}],
    }
    return CompileCache(
        container,
        () if shares else ({"name": _VOLUME, "persistentVolumeClaim": {"claimName": claim}},),
        ({"name": volume, "mountPath": _CACHE_MOUNT, "subPath": folder},),
    )
