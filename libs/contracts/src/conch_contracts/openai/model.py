"""What all types of the public API have in common."""

from pydantic import BaseModel, ConfigDict


class ApiModel(BaseModel):
    """A frozen type of the public API; fields that it does not know are left out."""

    model_config = ConfigDict(
        frozen=True, strict=True, extra="ignore", allow_inf_nan=False, use_attribute_docstrings=True
    )
