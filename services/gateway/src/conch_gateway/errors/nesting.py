"""How deep JSON may be nested, in a body as in the texts that stand in one; pure."""

from conch_gateway.errors.bad_request import MAX_PARAM_CHARS
from conch_kit.errors import InvalidRequest

MAX_DEPTH = 64

_CONTAINERS = frozenset((dict, list))


def check_depth(value: object, param: str, limit: int = MAX_DEPTH) -> None:
    """Raise InvalidRequest where this parameter's value has more levels than `limit`."""
    if isinstance(value, dict | list) and _deeper_than(value, limit):
        raise too_deep(param)


def too_deep(param: str) -> InvalidRequest:
    """Return the error for a parameter with too many nested levels."""
    return InvalidRequest(
        f"Invalid value for '{param[:MAX_PARAM_CHARS]}': expected at most {MAX_DEPTH} nested levels.",
        param=param[:MAX_PARAM_CHARS],
        code="too_deep",
    )


def _deeper_than(value: dict[str, object] | list[object], limit: int) -> bool:
    level: list[dict[str, object] | list[object]] = [value]
    for _ in range(limit):
        below: list[dict[str, object] | list[object]] = []
        for item in level:
            children = item.values() if isinstance(item, dict) else item
            # Most lists hold none, and this is the fastest way to find out: there may be a million numbers.
            if not _CONTAINERS.isdisjoint(map(type, children)):
                below += [child for child in children if type(child) is dict or type(child) is list]
        if not below:
            return False
        level = below
    return True
