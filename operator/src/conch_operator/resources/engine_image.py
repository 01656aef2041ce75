"""The image of a model's engines: its own, else the one that the release names for its runtime.

The chart's values are where these stand; nobody publishes one with FasterTransformer.
"""

from conch_operator.settings import EngineSettings
from conch_operator.state import DesiredModel


class NotSupported(Exception):
    """A runtime or an image that this installation does not have; the message says what to set."""


def engine_image(model: DesiredModel, settings: EngineSettings) -> str:
    """Return the image that a model's engines run; raises NotSupported."""
    engine = model.deployment.spec.engine
    image = engine.image or settings.images.get(engine.runtime)
    if image is None:
        raise NotSupported(f"No image for the runtime {engine.runtime} is configured; set spec.engine.image.")
    return image
