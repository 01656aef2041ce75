"""What all types of the public API have in common."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class ApiModel(BaseModel):
    """A frozen type of the public API; fields that it does not know are left out."""

    model_config = ConfigDict(
        frozen=True, strict=True, extra="ignore", allow_inf_nan=False, use_attribute_docstrings=True
    )


MetadataKey = Annotated[str, Field(max_length=64)]
MetadataText = Annotated[str, Field(max_length=512)]
Metadata = Annotated[dict[MetadataKey, MetadataText], Field(max_length=16)]
"""What a client notes about its request."""
