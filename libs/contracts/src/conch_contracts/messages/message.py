"""What all messages between Conch's own processes have in common.

While a new version is rolled out, its processes talk with those of the one before. So a reader ignores fields that it
does not know, and a field that is added has a default, which means what was meant before there was the field. Neither
relies on the other: until the last old process has gone, a new field may be without effect. What a field means never
changes; a message of another meaning gets another path, `/internal/v2/...`. What clients send is no such message.

Messages are msgspec's structs: made on every request, they cost a tenth of a pydantic model to build and to read. They
are read strictly, and built without a check: who builds one has checked what goes into it.
"""

import re
from dataclasses import dataclass
from typing import Annotated, Any, Final, Generic, TypeVar

import msgspec

from conch_contracts.names import Digest

MessageDigest = Annotated[Digest, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]
"""The name of a tokenizer bundle, checked where it enters a process, because it becomes the name of a folder."""
TokenId = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
"""An id of a vocabulary, as engines take it."""
TokenLimit = Annotated[int, msgspec.Meta(ge=0)]
"""So many tokens at most; the library that cuts knows no other number."""


class Message(msgspec.Struct, frozen=True):
    """A frozen message, or a part of one."""


M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True)
class Written(Generic[M]):
    """Parts of a message as JSON, which may stand in it instead of them: they are not written again then."""

    json: Any
    """What stands in the message."""
    count: int
    """How many parts there are."""
    size: int
    """Of the JSON, in bytes."""


_PLACE: Final = re.compile(r" - at `\$\.?(?P<path>[^`]*)`$")
_UNKNOWN: Final = re.compile(r"unknown field `(?P<name>[^`]*)`")


class InvalidMessage(ValueError):
    """Bytes that are no message of the kind that was expected."""

    def __init__(self, said: str) -> None:
        place, unknown = _PLACE.search(said), _UNKNOWN.search(said)
        path = place["path"].replace("[", ".").replace("]", "").lstrip(".") if place else ""
        self.where = ".".join(filter(None, (path, unknown["name"] if unknown else "")))
        """The dotted path of what is wrong; empty for the whole."""
        self.reason = _PLACE.sub("", said)
        super().__init__(f"{self.where or 'body'}: {self.reason}")


def to_json(message: Message) -> bytes:
    """Return a message as JSON; raises UnicodeEncodeError for half a character."""
    return msgspec.json.encode(message)


def written(parts: tuple[M, ...]) -> Written[M]:
    """Return parts of a message as JSON."""
    data = bytes(memoryview(msgspec.json.encode(parts)))  # a third of what the library gives is room that nobody uses
    return Written(msgspec.Raw(data), len(parts), len(data))


def from_json(kind: type[M], data: bytes) -> M:
    """Return the message that JSON holds; raises InvalidMessage, which says where it is wrong."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise InvalidMessage(str(exc)) from exc


def changed(message: M, **changes: Any) -> M:
    """Return a message with some fields changed."""
    return msgspec.structs.replace(message, **changes)
