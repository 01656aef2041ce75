"""Refuses JSON Schemas that only JSON without an end could obey. Pure.

A member that is required and refers to the schema that requires it is such a case: the engine would write one object
inside the other until the limit of tokens. What cannot be read here is left to the compiler.
"""

from collections.abc import Iterator, Mapping
from urllib.parse import unquote

from conch_guidance.errors import UnusableGrammar


def inspect_json_schema(schema: Mapping[str, object]) -> None:
    """Look at a schema; raises UnusableGrammar. It must not be nested deeper than functions may call each other."""
    targets = {reference: _target(schema, reference) for reference in _references(schema)}
    finite = {reference for reference, target in targets.items() if target is None}
    while True:
        more = {name for name, target in targets.items() if name not in finite and _is_finite(target, finite)}
        if not more:
            break
        finite |= more
    if not _is_finite(schema, finite):
        endless = min(targets.keys() - finite)
        raise UnusableGrammar(f"only JSON without an end obeys it: {endless!r} is required inside of itself")


def _is_finite(schema: object, finite: set[str]) -> bool:
    """Return whether some JSON that ends obeys a schema, if that is so for the references in `finite`."""
    if not isinstance(schema, dict) or "const" in schema or "enum" in schema:
        return True
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference not in finite:
        return False
    if not all(_is_finite(one, finite) for one in _listed(schema.get("allOf"))):
        return False
    for key in ("anyOf", "oneOf"):
        alternatives = _listed(schema.get(key))
        if alternatives and not any(_is_finite(one, finite) for one in alternatives):
            return False
    return _has_finite_value(schema, finite)


def _has_finite_value(schema: Mapping[str, object], finite: set[str]) -> bool:
    """Return whether what a schema demands of the parts of a value can be had."""
    match schema.get("type"):
        case "object":
            properties, required = schema.get("properties"), _listed(schema.get("required"))
            known = properties if isinstance(properties, dict) else {}
            return all(_is_finite(known[name], finite) for name in required if isinstance(name, str) and name in known)
        case "array":
            least, first = schema.get("minItems"), _listed(schema.get("prefixItems"))
            count = least if isinstance(least, int) else 0
            rest = [schema.get("items")] if count > len(first) else []
            return all(_is_finite(one, finite) for one in [*first[:count], *rest])
        case _:
            return True


def _references(schema: object) -> Iterator[str]:
    """Yield every reference that begins at the schema's root."""
    waiting = [schema]
    while waiting:
        here = waiting.pop()
        if isinstance(here, dict):
            reference = here.get("$ref")
            if isinstance(reference, str):
                yield reference
            waiting += here.values()
        elif isinstance(here, list):
            waiting += here


def _target(schema: object, reference: str) -> object:
    """Return what a reference points to; None where that is not found."""
    root, *steps = unquote(reference).split("/")
    if root != "#":
        return None
    here = schema
    for step in steps:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(here, list) and name.isdecimal() and int(name) < len(here):
            here = here[int(name)]
        elif isinstance(here, dict) and name in here:
            here = here[name]
        else:
            return None
    return here


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []
