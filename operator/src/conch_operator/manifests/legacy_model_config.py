"""Pure: reads the older JSON file (`model_config.json`) as ModelDeployments with external engines.

The file has up to four lists. `llm`, `embedding` and `rerank` name models and the Triton server that holds each;
`model_infos` holds generation settings, joined by name. A key that nothing obeys is warned about, never fatal.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from conch_contracts.dialects.encoder import INPUTS
from conch_contracts.names import API_VERSION, KIND
from conch_contracts.problems import Problem
from conch_contracts.records import Dialect, ModelKind, Profile

Json = Mapping[str, object]

SECTIONS = {"llm": ModelKind.LLM, "embedding": ModelKind.EMBEDDING, "rerank": ModelKind.RERANK}
FASTERTRANSFORMER_MODEL = "fastertransformer"
"""What `llm` models are called inside Triton unless `model_name` says otherwise."""

_GENERATION_FIELDS = {
    "start_id": "startId",
    "end_id": "endId",
    "max_len": "maxLength",
    "bad_words": "badWords",
    "stop_words": "stopWords",
    "temperature": "temperature",
    "repetition_penalty": "repetitionPenalty",
    "mask_positions": "maskPositions",
}
_DECIMALS = frozenset({"temperature", "repetition_penalty"})
_ENTRY_KEYS = frozenset({"name", "url", "path", "model_name"})
_LLM_KEYS = frozenset({"chat_template"})
_ENCODER_KEYS = frozenset({"max_tokens", "input_config", "output_config"})


_KEYS: Mapping[tuple[str, ...], str] = {
    ("servedNames",): "name",
    ("source", "path"): "path",
    ("engine", "external", "grpc"): "url",
    ("engine", "external", "http"): "url",
    ("engine", "external", "modelName"): "model_name",
    ("tokenizer", "chatTemplate", "file"): "chat_template",
    ("maxTokens",): "max_tokens",
    ("tensors", "inputs"): "input_config",
    ("tensors", "output"): "output_config",
    **{("generation", field): key for key, field in _GENERATION_FIELDS.items()},
}
"""Which key of an entry became a field of the spec."""


class ModelConfigError(Exception):
    """A file that cannot be read as a list of models; says which entry and why."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """The models as ModelDeployment objects, ready to parse or print, and what was not understood."""

    objects: tuple[dict[str, object], ...]
    warnings: tuple[str, ...]


def convert(data: object) -> Conversion:
    """Return the ModelDeployments that an older file describes; raises ModelConfigError."""
    if not isinstance(data, Mapping):
        raise ModelConfigError(f"expected an object with the keys model_infos, {', '.join(SECTIONS)}")
    warnings = [f"{key}: unknown key, ignored" for key in data if key not in (*SECTIONS, "model_infos")]
    infos = {_text(info, "name", "model_infos"): info for info in _entries(data, "model_infos")}
    objects: list[dict[str, object]] = []
    names: set[str] = set()
    for section, kind in SECTIONS.items():
        for entry in _entries(data, section):
            name = _text(entry, "name", section)
            info = infos.pop(name, {}) if kind is ModelKind.LLM else {}
            warnings += _warnings(kind, f"{section} {name}", entry, info)
            objects.append(_model(kind, entry, info, _object_name(name, names)))
    warnings += [f"model_infos: {name} has no entry in llm, ignored" for name in infos]
    if not objects:
        raise ModelConfigError(f"no model in any of {', '.join(SECTIONS)}")
    return Conversion(tuple(objects), tuple(warnings))


def place(data: Json, problem: Problem) -> str:
    """Return what the file's author calls the place of a problem with a converted object: the entry, and its key."""
    spec = data["spec"]
    assert isinstance(spec, Mapping)
    section = next(section for section, kind in SECTIONS.items() if kind.value == spec["kind"])
    name, path = spec["servedNames"][0], problem.path[1:]
    for field, key in _KEYS.items():
        if path[: len(field)] == field:
            within = Problem((key, *path[len(field) :]), "").field if key != "name" else key
            return f"{'model_infos' if field[0] == 'generation' else section} {name}: {within}"
    return f"{section} {name}: {problem.field}"


def _model(kind: ModelKind, entry: Json, info: Json, object_name: str) -> dict[str, object]:
    section = next(section for section, its_kind in SECTIONS.items() if its_kind is kind)
    name = _text(entry, "name", section)
    spec: dict[str, object] = {
        "kind": kind.value,
        "servedNames": [name],
        "compatProfile": Profile.DENGLIN.value,
        "source": {"path": _text(entry, "path", f"{section} {name}")},
        "engine": {"external": _external(kind, entry, section, name)},
    }
    if kind is ModelKind.LLM and entry.get("chat_template"):
        spec["tokenizer"] = {"chatTemplate": {"file": _text(entry, "chat_template", f"{section} {name}")}}
    if generation := _generation(info):
        spec["generation"] = generation
    if kind is not ModelKind.LLM:
        spec |= _encoder(entry, f"{section} {name}")
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": object_name}, "spec": spec}


def _external(kind: ModelKind, entry: Json, section: str, name: str) -> dict[str, object]:
    address = _text(entry, "url", f"{section} {name}").split("://")[-1].rstrip("/")
    if kind is not ModelKind.LLM:
        return {"http": address, "modelName": entry.get("model_name") or name, "dialect": Dialect.ENCODER.value}
    model = entry.get("model_name") or FASTERTRANSFORMER_MODEL
    return {"grpc": address, "modelName": model, "dialect": Dialect.FASTERTRANSFORMER.value}


def _encoder(entry: Json, where: str) -> dict[str, object]:
    fields: dict[str, object] = {}
    if entry.get("max_tokens") is not None:
        fields["maxTokens"] = entry["max_tokens"]
    inputs, output = _mapping(entry, "input_config", where), _mapping(entry, "output_config", where)
    tensors: dict[str, object] = {}
    if known := {name: tensor for name, tensor in inputs.items() if name in INPUTS}:
        tensors["inputs"] = known
    if said := {key: output[key] for key in ("name", "process") if output.get(key) is not None}:
        tensors["output"] = said
    return fields | ({"tensors": tensors} if tensors else {})


def _mapping(entry: Json, key: str, where: str) -> Json:
    value = entry.get(key) or {}
    if not isinstance(value, Mapping):
        raise ModelConfigError(f"{where}: {key} must be an object, found {value!r}")
    return value


def _generation(info: Json) -> dict[str, object]:
    fields: dict[str, object] = {}
    for key, field in _GENERATION_FIELDS.items():
        value = info.get(key)
        if value is None:
            continue
        number = key in _DECIMALS and isinstance(value, int | float) and not isinstance(value, bool)
        fields[field] = format(Decimal(str(value)), "f") if number else value
    return fields


def _warnings(kind: ModelKind, where: str, entry: Json, info: Json) -> list[str]:
    keys = _ENTRY_KEYS | (_LLM_KEYS if kind is ModelKind.LLM else _ENCODER_KEYS)
    unknown = [f"{where}: unknown key {key}, ignored" for key in entry if key not in keys]
    for part, known in (("input_config", INPUTS), ("output_config", ("name", "process"))):
        value = entry.get(part) if kind is not ModelKind.LLM else None
        found = value if isinstance(value, Mapping) else {}
        unknown += [f"{where}: unknown key {part}.{key}, ignored" for key in found if key not in known]
    in_info = {"name", *_GENERATION_FIELDS}
    return unknown + [f"model_infos {info['name']}: unknown key {key}, ignored" for key in info if key not in in_info]


def _entries(data: Json, section: str) -> Sequence[Json]:
    entries = data.get(section) or []
    if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
        raise ModelConfigError(f"{section}: expected a list of objects")
    return entries


def _text(entry: Json, key: str, where: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str) or not value:
        raise ModelConfigError(f"{where}: {key} must be a text, found {value!r}")
    return value


def _object_name(name: str, taken: set[str]) -> str:
    """Return a DNS label made from a model's name, different from those taken."""
    label = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:36].strip("-") or "model"
    unique = next(c for n in range(1, len(taken) + 2) if (c := label if n == 1 else f"{label}-{n}") not in taken)
    taken.add(unique)
    return unique
