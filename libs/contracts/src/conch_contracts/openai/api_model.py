"""What all types of the public API have in common."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator


class ApiModel(BaseModel):
    """A frozen type of the public API; fields that it does not know are left out.

    What makes a validator waits for the first request of its type, and the docstrings of fields are read by what writes
    the API's description alone: together two thirds of the time that it takes to import these types.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", allow_inf_nan=False, defer_build=True)


class Options(ApiModel):
    """An object of a request whose members are all orders: one that nobody knows would go unobeyed, so it is refused.

    Null asks for nothing, under any name.
    """

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: object) -> object:
        return {name: value for name, value in given.items() if value is not None} if isinstance(given, dict) else given


MetadataKey = Annotated[str, Field(max_length=64)]
MetadataText = Annotated[str, Field(max_length=512)]
Metadata = Annotated[dict[MetadataKey, MetadataText], Field(max_length=16)]
"""What a client notes about its request."""
