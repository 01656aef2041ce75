"""Messages as a process of a newer version sends them: with a field that nobody knows yet, wherever one can stand."""

from typing import Any

from conch_contracts.messages.message import Message


def of_a_newer_version(message: Message) -> dict[str, Any]:
    """Return a message as JSON, each part of it with a field too many."""
    found = _newer(message)
    assert isinstance(found, dict)
    return found


def _newer(part: Any) -> Any:
    match part:
        case Message():
            return {name: _newer(getattr(part, name)) for name in part.__struct_fields__} | {"newer": {"x": 1}}
        case tuple():
            return [_newer(item) for item in part]
        case _:
            return part
