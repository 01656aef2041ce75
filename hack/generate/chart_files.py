"""Makes what the chart shares with the code: ports and labels, the definitions of our kinds, the values' schema.

The schema's source is values.schema.yaml, because sentences are easier to write in YAML and Helm reads only JSON.
"""

import json
from pathlib import Path

import yaml

from conch_contracts import names
from conch_contracts.forbidden_addresses import NOT_PUBLIC
from generate.crd import crd_text, pool_crd_text

_CHART = Path(__file__).parents[2] / "charts" / "conch"
_KEEP = "  annotations:\n    helm.sh/resource-policy: keep\n"
Schema = dict[str, object]


def contract_text() -> str:
    """Return the names that templates use, as YAML."""
    contract = {
        "group": names.GROUP,
        "plural": names.PLURAL,
        "poolPlural": names.POOL_PLURAL,
        "fieldManager": names.OPERATOR,
        "ports": {
            "gateway": names.GATEWAY_PORT,
            "admin": names.ADMIN_PORT,
            "service": names.SERVICE_PORT,
            "externalScaler": names.EXTERNAL_SCALER_PORT,
            "redis": names.REDIS_PORT,
        },
        "labels": {
            "name": names.NAME_LABEL,
            "instance": names.INSTANCE_LABEL,
            "component": names.COMPONENT_LABEL,
            "managedBy": names.MANAGED_BY_LABEL,
            "model": names.MODEL_LABEL,
            "scraped": names.SCRAPED_LABEL,
        },
        "components": {"engine": names.ENGINE_COMPONENT, "reader": names.READER_COMPONENT},
        "notPublic": {
            "ipv4": [str(network) for network in NOT_PUBLIC if network.version == 4],
            "ipv6": [str(network) for network in NOT_PUBLIC if network.version == 6],
        },
        "registry": {
            "prefix": names.KEY_PREFIX,
            "changes": names.CHANGES_CHANNEL,
            "loads": names.LOADS_KEY,
            "wakes": names.WAKES_KEY,
            "cache": names.CACHE_PREFIX,
            "responses": names.RESPONSE_PREFIX,
        },
    }
    return (
        "# Made by `make generate` from conch_contracts, most of it from names.py; edit it there.\n"
        + yaml.safe_dump(contract, sort_keys=False)
    )


def chart_crd_text() -> str:
    """Return the definition of ModelDeployment as the chart installs it: it stays when the release goes."""
    return _kept(crd_text(), names.PLURAL)


def chart_pool_crd_text() -> str:
    """Return that of EnginePool, likewise."""
    return _kept(pool_crd_text(), names.POOL_PLURAL)


def _kept(definition: str, plural: str) -> str:
    head, name, rest = definition.partition(f"  name: {plural}.{names.GROUP}\n")
    return head + name + _KEEP + rest


def schema_text() -> str:
    """Return the values' schema as JSON."""
    return json.dumps(values_schema(), indent=2) + "\n"


def values_schema() -> Schema:
    """Return the values' schema as it was written."""
    return _mapping(yaml.safe_load((_CHART / "values.schema.yaml").read_text(encoding="utf-8")))


def values_page() -> str:
    """Return the page that describes every value."""
    schema = values_schema()
    defaults = _mapping(yaml.safe_load((_CHART / "values.yaml").read_text(encoding="utf-8")))
    lines = [
        "# The chart's values",
        "",
        "[All pages](README.md) · [installing](install.md) · [upgrade](upgrade.md) ·",
        "[monitoring](monitoring.md) · [air gaps](air-gap.md)",
        "",
        "Made by `make generate` from charts/conch/values.schema.yaml; edit it there.",
        "",
    ]
    resolver = _Resolver(schema)
    for name, part in _mapping(schema["properties"]).items():
        lines += _section(name, resolver.resolve(part), defaults.get(name), resolver)
    return "\n".join(lines)


class _Resolver:
    """Follows references inside one schema; what stands beside a reference wins."""

    def __init__(self, schema: Schema) -> None:
        self._definitions = _mapping(schema["$defs"])

    def resolve(self, part: object) -> Schema:
        """Return a part without a reference."""
        found = dict(_mapping(part))
        if reference := found.pop("$ref", None):
            return self.resolve(self._definitions[str(reference).removeprefix("#/$defs/")]) | found
        return found


def _section(name: str, part: Schema, default: object, resolver: _Resolver) -> list[str]:
    rows = _rows(name, part, default, resolver)
    sentence = [str(part["description"]), ""] if "properties" in part else []
    return [f"## {name}", "", *sentence, "| value | default | meaning |", "|---|---|---|", *rows, ""]


def _rows(path: str, part: Schema, default: object, resolver: _Resolver) -> list[str]:
    properties = part.get("properties")
    if not properties or path.endswith((".resources", ".initResources")):  # resources are written as in a pod
        return [_row(path, part, default)]
    values = _mapping(default or {})
    rows = []
    for name, child in _mapping(properties).items():
        rows += _rows(f"{path}.{name}", resolver.resolve(child), values.get(name), resolver)
    return rows


def _row(path: str, part: Schema, default: object) -> str:
    shown = "" if default is None else f"`{json.dumps(default)}`"
    allowed = part.get("enum")
    meaning = str(part["description"]) + (
        f" One of {', '.join(map(str, allowed))}." if isinstance(allowed, list) else ""
    )
    return f"| `{path}` | {shown} | {meaning.replace('|', '/')} |"


def _mapping(value: object) -> Schema:
    if not isinstance(value, dict):
        raise TypeError(f"expected a mapping, found {value!r}")
    return value
