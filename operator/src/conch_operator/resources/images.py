"""The image of each runtime for models that name none, where the cluster's settings name none either.

NVIDIA publishes them; nobody publishes one with FasterTransformer, so a ModelDeployment must name its own.
"""

from collections.abc import Mapping
from types import MappingProxyType

from conch_contracts.spec.engine import Runtime
from conch_operator.settings import EngineSettings
from conch_operator.state import DesiredModel

_SERVER = "nvcr.io/nvidia/tritonserver:24.10"

DEFAULT_IMAGES: Mapping[Runtime, str] = MappingProxyType(
    {
        Runtime.VLLM: f"{_SERVER}-vllm-python-py3",
        Runtime.TENSORRTLLM: f"{_SERVER}-trtllm-python-py3",
        Runtime.ONNXRUNTIME: f"{_SERVER}-py3",
        Runtime.PYTHON: f"{_SERVER}-py3",
    }
)


def engine_image(model: DesiredModel, settings: EngineSettings) -> str:
    """Return the image that a model's engines run."""
    engine = model.deployment.spec.engine
    return engine.image or settings.images.get(engine.runtime) or DEFAULT_IMAGES[engine.runtime]
