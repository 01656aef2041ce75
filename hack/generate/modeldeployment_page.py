"""Makes the page with every field of a ModelDeployment from the schema that the API server gets."""

from collections.abc import Iterator, Mapping

from generate.crd import pool_schema, schema

_INTRODUCTION = """# Every field of a ModelDeployment

[All pages](README.md) · [the first model](first-model.md) · [sources](sources.md) · [runtimes](runtimes.md) ·
[GPUs](gpu.md) · [tools and thinking](tools.md) · [scaling](scaling.md) · [compatibility](compatibility.md)

<!-- Made by `make generate` from libs/contracts; edit the types there. -->

A ModelDeployment is one model to serve. The same object works on a laptop (`conch up -f`) and on a cluster
(`kubectl apply -f`); fields that need a cluster say so. `kubectl explain mdep.spec --recursive` shows the same as this
page. Decimals are written in quotes (`"0.7"`), durations as `30s`, `10m` or `1m30s`, amounts as Kubernetes writes them
(`500m`, `16Gi`). An object that breaks a rule is refused with the rule's words.
"""

_POOLS = """## EnginePool

An EnginePool is a server that [many models share](scaling.md#many-models-in-one-server); `spec.placement` of a
ModelDeployment names it. It stands in the files that `conch up` is given, or on the cluster beside the models.
"""

Part = Mapping[str, object]


def reference_text() -> str:
    """Return the page as Markdown."""
    properties = _part(schema()["properties"])
    rules = _rules(schema())
    sections = [_INTRODUCTION, *([rules] if rules else [])]
    for name in ("spec", "status"):
        sections += _sections(name, _part(properties[name]))
    pool = _part(pool_schema()["properties"])
    pool_rules = _rules(pool_schema())
    pools = (section for name in ("spec", "status") for section in _sections(f"EnginePool.{name}", _part(pool[name])))
    return "\n".join([*sections, _POOLS, *([pool_rules] if pool_rules else []), *pools])


def _sections(path: str, part: Part) -> Iterator[str]:
    """Yield a section for an object and one for each object in it."""
    properties = {name: _part(field) for name, field in _part(part["properties"]).items()}
    required = part.get("required")
    needed = required if isinstance(required, list) else []
    rows = [_row(path, name, field, needed=name in needed) for name, field in properties.items()]
    lines = [
        f"## {path}",
        "",
        str(part["description"]),
        "",
        "| field | type | meaning |",
        "|---|---|---|",
    ]
    yield "\n".join([*lines, *rows, ""])
    if rules := _rules(part):
        yield rules
    for name, field in properties.items():
        inner, suffix = _inner(field)
        if "properties" in inner:
            yield from _sections(f"{path}.{name}{suffix}", inner)


def _row(path: str, name: str, field: Part, *, needed: bool) -> str:
    inner, suffix = _inner(field)
    shown = f"`{name}`" if "properties" not in inner else f"[`{name}`](#{_anchor(f'{path}.{name}{suffix}')})"
    of_values = [] if "properties" in inner or inner is field else _validations(inner)
    rules = [] if inner is field and "properties" in field else _validations(field)
    said = [f"Refused otherwise: “{validation['message']}”." for validation in (*rules, *of_values)]
    meaning = (
        " ".join([*(["**Required.**"] if needed else []), str(field.get("description", "")), *said])
        .replace("\n\n", " ")
        .replace("|", "\\|")
    )
    return f"| {shown} | {_type(field)} | {meaning} |"


def _type(field: Part) -> str:
    """Return the type with its bounds in a reader's words."""
    if field.get("x-kubernetes-int-or-string"):
        return "quantity"
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in _list(field["enum"]))
    match field.get("type"):
        case "array":
            return f"list of {_type(_part(field['items']))}, at most {field['maxItems']}"
        case "object" if "additionalProperties" in field:
            return f"map to {_type(_part(field['additionalProperties']))}"
        case "integer":
            low, high = field.get("minimum"), field.get("maximum")
            return (
                "integer"
                if low is None
                else f"integer, {low} to {high}"
                if high is not None
                else f"integer, from {low}"
            )
        case other:
            return str(other)


def _rules(part: Part) -> str:
    messages = [str(validation["message"]) for validation in _validations(part)]
    return "\n".join(["Refused with these words:", "", *(f"- {text}" for text in messages), ""]) if messages else ""


def _inner(field: Part) -> tuple[Part, str]:
    """Return what a list holds, with the brackets that show it, or the field itself."""
    return (_part(field["items"]), "[]") if field.get("type") == "array" else (field, "")


def _validations(part: Part) -> list[Part]:
    return [_part(one) for one in _list(part.get("x-kubernetes-validations", []))]


def _anchor(path: str) -> str:
    """Return the anchor that Markdown gives to the heading of this path."""
    return "".join(character for character in path.lower() if character.isalnum() or character in "-_")


def _part(value: object) -> Part:
    assert isinstance(value, Mapping), value
    return value


def _list(value: object) -> list[object]:
    assert isinstance(value, list), value
    return value
