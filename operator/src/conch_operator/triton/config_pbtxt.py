"""Writes the protobuf text of a model's config.pbtxt, piece by piece."""

import json
from collections.abc import Iterable, Mapping


def text(value: str) -> str:
    """Return a string literal."""
    return json.dumps(value, ensure_ascii=False)


def parameter_lines(values: Mapping[str, str]) -> Iterable[str]:
    """Return one line for each parameter of a model."""
    for key, value in values.items():
        yield f"parameters {{ key: {text(key)} value {{ string_value: {text(value)} }} }}"


def tensor(kind: str, name: str, data_type: str, dims: str, *flags: str) -> str:
    """Return one input or output; a flag such as `optional` is set to true."""
    extra = "".join(f" {flag}: true" for flag in flags)
    return f"{kind} [ {{ name: {text(name)} data_type: {data_type} dims: [ {dims} ]{extra} }} ]"


def document(lines: Iterable[str]) -> str:
    """Return the whole file."""
    return "\n".join(lines) + "\n"
