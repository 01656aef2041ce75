"""Makes the page with every endpoint and every type of the API from the gateway's own OpenAPI document."""

import json
from collections.abc import Iterator, Mapping, Sequence

from generate.openapi.document import document
from generate.openapi.failures import STATUSES

_INTRODUCTION = """# Every endpoint of the API

[All pages](README.md) · [using the API](using-the-api.md) · [tools and thinking](tools.md) ·
[structured output](structured-output.md) · [Responses](responses.md)

<!-- Made by `make generate` from the gateway's OpenAPI document; edit the types in conch_contracts. -->

This is the document that the gateway serves under `/openapi.json`, as a page. [Using the API](using-the-api.md) says
what the types cannot: defaults, bounds, streams, caches. Every parameter that is not marked as required may also be
null, which means the same as leaving it out.
"""
_JSON = "application/json"
_OPERATIONS = ("get", "post", "delete")
Part = Mapping[str, object]


def api_page() -> str:
    """Return the page as Markdown."""
    described = document()
    schemas = _part(_part(described["components"])["schemas"])
    sections = [_INTRODUCTION, *_endpoints(_part(described["paths"])), _errors(), "## Types\n"]
    sections += [_type_section(name, _part(schema)) for name, schema in sorted(schemas.items())]
    return "\n".join(sections)


def _errors() -> str:
    rows = [f"| {status} | {said} |" for status, said in STATUSES.items()]
    return "\n".join(["## Errors", "", "| status | |", "|---|---|", *rows, ""])


def _endpoints(paths: Part) -> Iterator[str]:
    """Yield a section for each operation; paths that are one operation are one section."""
    operations: dict[str, list[str]] = {}
    told: dict[str, Part] = {}
    for path, methods in paths.items():
        for method in _OPERATIONS:
            operation = _part(methods).get(method)
            if operation is not None:
                same = json.dumps({**_part(operation), "operationId": ""}, sort_keys=True)
                operations.setdefault(same, []).append(f"{method.upper()} {path}")
                told[same] = _part(operation)
    for same, names in operations.items():
        yield _endpoint(names, told[same])


def _endpoint(names: Sequence[str], operation: Part) -> str:
    lines = [f"## {', '.join(f'`{name}`' for name in names)}", "", str(operation["description"]), ""]
    body = operation.get("requestBody")
    if body is not None:
        (media_type, content), *_ = _part(_part(body)["content"]).items()
        said = "" if media_type == _JSON else f", as {media_type}"
        lines += [f"Takes {_type(_part(_part(content)['schema']))}{said}.", ""]
    parameters = operation.get("parameters")
    if isinstance(parameters, list):
        lines += ["| parameter | in | type |", "|---|---|---|"]
        for parameter in parameters:
            shown = _type(_part(parameter["schema"]))
            lines.append(f"| `{parameter['name']}` | {parameter['in']} | {shown} |")
        lines.append("")
    return "\n".join([*lines, *_answers(_part(operation["responses"])), ""])


def _answers(responses: Part) -> Iterator[str]:
    failures = [status for status, response in responses.items() if _fails(_part(response))]
    for status, response in sorted(responses.items()):
        if status not in failures:
            yield from _answer(status, _part(_part(response)["content"]))
    if failures:
        kind = _type(_json_of(_part(responses[failures[0]])))
        yield f"Errors: {', '.join(sorted(failures))}, each of the type {kind}."


def _answer(status: str, content: Part) -> Iterator[str]:
    texts = "".join(f", or {kind}" for kind in content if kind.startswith("text/") and kind != "text/event-stream")
    yield f"Answers {status} with {_type(_json_of({'content': content}))}{texts}."
    if "text/event-stream" in content:
        yield str(_part(_part(content["text/event-stream"])["itemSchema"])["description"])
    yield ""


def _fails(response: Part) -> bool:
    return str(_json_of(response).get("$ref")).rpartition("/")[2] in ("ErrorResponse", "ErrorAnswer")


def _type_section(name: str, schema: Part) -> str:
    lines = [f"### {name}", "", str(schema.get("description", "")).replace("\n", " "), ""]
    properties = schema.get("properties")
    if properties is None:
        return "\n".join([*lines, f"{_type(schema)}.", ""])
    needed = schema.get("required", [])
    lines += ["| field | type | meaning |", "|---|---|---|"]
    for field, part in _part(properties).items():
        meaning = str(_part(part).get("description", "")).replace("\n", " ").replace("|", "\\|")
        required = "**Required.** " if isinstance(needed, list) and field in needed else ""
        lines.append(f"| `{field}` | {_type(_part(part))} | {(required + meaning).strip()} |")
    return "\n".join([*lines, ""])


def _type(part: Part) -> str:
    """Return a type in a reader's words; what may be null is not told again."""
    if "$ref" in part:
        name = str(part["$ref"]).rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for key in ("anyOf", "oneOf"):
        if key in part:
            kinds = dict.fromkeys(_type(_part(kind)) for kind in _list(part[key]) if kind != {"type": "null"})
            return " or ".join(kinds)
    if "const" in part:
        return f"`{json.dumps(part['const'])}`"
    if "enum" in part:
        return ", ".join(f"`{json.dumps(value)}`" for value in _list(part["enum"]))
    match part.get("type"):
        case "array":
            length = _bounds(part, "minItems", "maxItems")
            return f"list of {_type(_part(part.get('items', {})))}{length}"
        case "object" if isinstance(part.get("additionalProperties"), dict):
            return (
                f"map to {_type(_part(part['additionalProperties']))}{_bounds(part, 'minProperties', 'maxProperties')}"
            )
        case "string":
            pattern = f" like `{part['pattern']}`".replace("|", "\\|") if "pattern" in part else ""
            return "text" + pattern + _bounds(part, "minLength", "maxLength")
        case "number" | "integer" as kind:
            return f"{kind}{_bounds(part, 'minimum', 'maximum', above=part.get('exclusiveMinimum'))}"
        case None:
            return "anything"
        case other:
            return str(other)


def _bounds(part: Part, low: str, high: str, *, above: object = None) -> str:
    floor = f"above {_number(above)}" if above is not None else f"from {_number(part[low])}" if low in part else ""
    ceiling = f"to {_number(part[high])}" if high in part else ""
    return f" ({' '.join(filter(None, (floor, ceiling)))})" if floor or ceiling else ""


def _number(value: object) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _json_of(holder: Part) -> Part:
    return _part(_part(_part(holder["content"])[_JSON])["schema"])


def _part(value: object) -> Part:
    if not isinstance(value, Mapping):
        raise TypeError(f"expected a mapping, found {value!r}")
    return value


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError(f"expected a list, found {value!r}")
    return value
