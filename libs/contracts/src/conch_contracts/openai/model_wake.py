"""`POST /conch/v1/models/{name}/wake`, which OpenAI's API does not have."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from conch_contracts.openai.api_model import ApiModel

DEFAULT_S = 600


class ModelState(StrEnum):
    """What a model is doing."""

    READY = "ready"
    """It has an engine."""
    STARTING = "starting"
    """An engine starts."""
    FAILED = "failed"
    """None starts: `reason` says why, and it will be tried again."""


class WakeRequest(ApiModel):
    """For how long the model shall be awake."""

    for_s: Annotated[int, Field(ge=1, le=86_400)] = DEFAULT_S
    """Seconds from when an engine should be there, at most a day. A wish that lasts longer stays."""


class ModelWake(ApiModel):
    """What has become of the wish."""

    id: str
    object: Literal["model.wake"] = "model.wake"
    state: ModelState
    ready_in_s: float | None
    """When an engine should be there, as starts were measured; null where nobody knows."""
    awake_until: int
    """In Unix seconds."""
    reason: str | None = None
    """Why no engine starts."""
