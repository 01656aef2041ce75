"""What all messages between Conch's own processes have in common.

While a new version is rolled out, its processes talk with those of the one before. So a reader ignores fields that it
does not know, and a field that is added has a default, which means what was meant before there was the field. Neither
relies on the other: until the last old process has gone, a new field may be without effect. What a field means never
changes; a message of another meaning gets another path, `/internal/v2/...`. What clients send is no such message.
"""

from pydantic import BaseModel, ConfigDict


class Message(BaseModel):
    """A frozen message, or a part of one."""

    model_config = ConfigDict(frozen=True, extra="ignore")
