"""The list of models: `GET /v1/models` and `GET /v1/models/{id}`, as OpenAI's and Anthropic's clients read it."""

from typing import Literal

from conch_contracts.openai.api_model import ApiModel

Modality = Literal["text", "image", "audio"]
EngineState = Literal["ready", "resting", "not_ready"]


class ModelPermission(ApiModel):
    """What clients of older APIs look for; the same for every model."""

    id: str
    object: Literal["model_permission"] = "model_permission"
    created: int
    allow_create_engine: bool = False
    allow_sampling: bool = True
    allow_logprobs: bool = True
    allow_search_indices: bool = False
    allow_view: bool = True
    allow_fine_tuning: bool = False
    organization: str = "*"
    group: str | None = None
    is_blocking: bool = False


class Model(ApiModel):
    """One served name."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str
    root: str
    parent: str | None = None
    max_model_len: int | None
    permission: list[ModelPermission]
    type: Literal["model"] = "model"
    """Here begins what Anthropic's clients read."""
    display_name: str
    created_at: str
    """`created`, as RFC 3339 writes it."""
    lifecycle: Literal["active"] = "active"
    max_input_tokens: int | None
    max_tokens: int | None
    """Of an answer; null where it gives no texts."""
    input_modalities: list[Modality]
    """What a request may hold, in OpenRouter's words."""
    state: EngineState
    """`ready`: it has an engine. `resting`: it has none, and a request waits for one that starts. `not_ready`: it has
    none, and a request gets a 503, at once or when none has come in time; the model's status says why."""


class ModelList(ApiModel):
    """Every name that `model` may hold."""

    object: Literal["list"] = "list"
    data: list[Model]
    has_more: bool = False
    """Whether there are others in the direction that was asked for; all are on one page where no `limit` is given."""
    first_id: str | None
    last_id: str | None
