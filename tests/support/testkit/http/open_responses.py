"""Responses and their events against what Open Responses requires, `e2e/schemas/open_responses.yaml`."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import yaml

from testkit.http.openai_schemas import FOLDER

_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "object": dict,
    "null": type(None),
}


def check_open(response: object) -> None:
    """Fail with every way in which a response departs from what is required."""
    _report(_departures("Response", response, "response"))


def check_open_event(event: Mapping[str, Any]) -> None:
    """Fail with every way in which an event of a stream departs from what is required."""
    kind, required = event["type"], _requirements()
    assert isinstance(event["sequence_number"], int)
    if kind not in required["of_openai_only"]:
        _report(_of_fields(required["events"][kind], event, kind))


def _report(departures: Iterator[str]) -> None:
    found = list(departures)
    assert found == [], "\n".join(found)


def _departures(kind: object, value: object, place: str) -> Iterator[str]:
    if isinstance(kind, list):
        if isinstance(value, list):
            for index, item in enumerate(value):
                yield from _departures(kind[0], item, f"{place}.{index}")
        else:
            yield f"{place} is no list"
        return
    kinds = str(kind).split(" ")
    if any(name in _TYPES and _is_of(name, value) for name in kinds):
        return
    objects = _requirements()["objects"]
    fitting = [name for name in kinds if name in objects and isinstance(value, dict) and _has_type_of(name, value)]
    if not fitting:
        yield f"{place} is {value!r}, expected {kind}"
    for name in fitting[:1]:
        assert isinstance(value, dict)
        optional = _requirements()["optional"].get(name, {})
        yield from _of_fields(objects[name], value, place)
        yield from _of_fields({field: rule for field, rule in optional.items() if field in value}, value, place)


def _of_fields(fields: Mapping[str, Any], value: Mapping[str, Any], place: str) -> Iterator[str]:
    for name, kind in fields.items():
        if name not in value:
            yield f"{place}.{name} is absent"
        elif name != "type":
            yield from _departures(kind, value[name], f"{place}.{name}")


def _is_of(name: str, value: object) -> bool:
    if name == "integer" and isinstance(value, float):  # the SDK's type of times
        return value.is_integer()
    return isinstance(value, _TYPES[name]) and (name == "boolean" or not isinstance(value, bool))


def _has_type_of(name: str, value: Mapping[str, Any]) -> bool:
    said = _requirements()["objects"][name].get("type")
    return said is None or value.get("type") == said


@cache
def _requirements() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER / "open_responses.yaml").read_text())
    return found
