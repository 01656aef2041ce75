"""The list of models: `GET /v1/models` and `GET /v1/models/{id}`."""

from typing import Literal

from conch_contracts.openai.api_model import ApiModel


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


class ModelList(ApiModel):
    """Every name that `model` may hold."""

    object: Literal["list"] = "list"
    data: list[Model]
