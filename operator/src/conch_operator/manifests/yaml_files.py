"""Reads ModelDeployments and EnginePools from YAML files, and says where in a file something is wrong.

YAML is first composed into nodes, which know their lines, and then constructed; a problem leads back to its node.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from conch_contracts.enginepool import EnginePool, parse_pool
from conch_contracts.modeldeployment import ModelDeployment, parse
from conch_contracts.names import POOL_KIND, ModelId
from conch_contracts.problems import InvalidObject, Problem

_MOST_NODES = 100_000
"""How large a document may be when its anchors are written out."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One ModelDeployment and where it was written."""

    deployment: ModelDeployment
    file: Path
    line: int


@dataclass(frozen=True, slots=True)
class PoolManifest:
    """One EnginePool and where it was written."""

    pool: EnginePool
    file: Path
    line: int


class ManifestError(Exception):
    """Files that hold no valid list of models; one entry `file:line: text` per fault."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = tuple(faults)


@dataclass(frozen=True, slots=True)
class ParsedManifests:
    """What was found in some files, valid or not."""

    manifests: tuple[Manifest, ...] = ()
    pools: tuple[PoolManifest, ...] = ()
    faults: tuple[str, ...] = ()


def load(files: Iterable[Path]) -> ParsedManifests:
    """Return what these files hold; raises ManifestError that names every fault."""
    reading = read(files)
    if faults := (*reading.faults, *unknown_pools(reading)):
        raise ManifestError(faults)
    return reading


def read(files: Iterable[Path]) -> ParsedManifests:
    """Return what these files hold, with a fault for each thing that is wrong."""
    manifests: list[Manifest] = []
    pools: list[PoolManifest] = []
    faults: list[str] = []
    for file in files:
        try:
            documents = _compose(file)
        except ManifestError as error:
            faults.extend(error.faults)
            continue
        if not documents:
            faults.append(f"{file}: holds no ModelDeployment or EnginePool")
        for node in documents:
            try:
                found = _manifest(file, node)
            except ManifestError as error:
                faults.extend(error.faults)
                continue
            if isinstance(found, Manifest):
                manifests.append(found)
            else:
                pools.append(found)
    faults.extend(_repetitions(manifests))
    faults.extend(_repeated_pools(pools))
    return ParsedManifests(tuple(manifests), tuple(pools), tuple(faults))


def unknown_pools(reading: ParsedManifests) -> Iterator[str]:
    """Yield a fault for each model whose pool is in none of the files; on a cluster it may be there already."""
    known = {one.pool.pool_id for one in reading.pools}
    for manifest in reading.manifests:
        wanted = manifest.deployment.pool_id
        if wanted is not None and wanted not in known:
            place = f"{manifest.file}:{manifest.line}: {manifest.deployment.model_id}"
            there = ", ".join(sorted(known)) or "none"
            yield f"{place}: spec.placement.pool: no file has an EnginePool {wanted}, there are: {there}"


def immutable_changes(old: Iterable[Manifest], new: Iterable[Manifest]) -> tuple[str, ...]:
    """Return a fault for each change that an edit must not make: a model's kind, and its choice of runtime."""
    before = {manifest.deployment.model_id: manifest.deployment.spec for manifest in old}
    faults = []
    for manifest in new:
        was, now = before.get(manifest.deployment.model_id), manifest.deployment.spec
        if was is None:
            continue
        place = f"{manifest.file}:{manifest.line}: {manifest.deployment.metadata.name}"
        remedy = "give it another metadata.name, or remove it first and add it again"
        if was.kind is not now.kind:
            faults.append(f"{place}: spec.kind cannot change from {was.kind} to {now.kind}; {remedy}")
        if was.engine.runtime is not now.engine.runtime:
            change = f"from {was.engine.runtime} to {now.engine.runtime}"
            faults.append(f"{place}: spec.engine cannot change {change}; {remedy}")
    return tuple(faults)


def _compose(file: Path) -> list[yaml.Node]:
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ManifestError([f"{file}: no such file"]) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ManifestError([f"{file}: cannot be read: {error}"]) from error
    try:
        documents = [node for node in yaml.compose_all(text, Loader=yaml.SafeLoader) if not _is_empty(node)]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise ManifestError([f"{file}{place}: broken YAML: {error.problem or error.context}"]) from error
    except yaml.YAMLError as error:
        raise ManifestError([f"{file}: broken YAML: {error}"]) from error
    except RecursionError as error:
        raise ManifestError([f"{file}: broken YAML: it is nested too deeply"]) from error
    if large := [node for node in documents if _size(node, {}) > _MOST_NODES]:
        line = large[0].start_mark.line + 1
        raise ManifestError([f"{file}:{line}: broken YAML: its anchors refer to themselves, or make too much of it"])
    return documents


def _size(node: yaml.Node, known: dict[int, float]) -> float:
    """Return how many nodes there are when every alias is written out; without end for one that holds itself."""
    size = known.get(id(node))
    if size is None:
        known[id(node)] = math.inf
        below = node.value if isinstance(node, yaml.CollectionNode) else ()
        parts = (part for entry in below for part in (entry if isinstance(entry, tuple) else (entry,)))
        size = known[id(node)] = 1 + sum(_size(part, known) for part in parts)
    return size


def _is_empty(node: yaml.Node | None) -> bool:
    return node is None or (isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null")


def _manifest(file: Path, node: yaml.Node) -> Manifest | PoolManifest:
    line = node.start_mark.line + 1
    if not isinstance(node, yaml.MappingNode):
        found = "a list" if isinstance(node, yaml.SequenceNode) else "a single value"
        raise ManifestError([f"{file}:{line}: expected a ModelDeployment, found {found}"])
    if repeated := [f"{file}:{key.start_mark.line + 1}: {key.value} is set twice" for key in _repeated_keys(node)]:
        raise ManifestError(repeated)
    try:
        data = yaml.SafeLoader("").construct_document(node)
        if data.get("kind") == POOL_KIND:
            return PoolManifest(parse_pool(data), file, line)
        return Manifest(parse(data), file, line)
    except yaml.MarkedYAMLError as error:
        place = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ManifestError([f"{file}{place}: broken YAML: {error.problem}"]) from error
    except InvalidObject as error:
        raise ManifestError([_fault(file, node, problem) for problem in error.problems]) from error


def _fault(file: Path, node: yaml.Node, problem: Problem) -> str:
    return f"{file}:{_line_of(node, problem.path)}: {problem.field}: {problem.message}"


def _line_of(node: yaml.Node, path: tuple[str | int, ...]) -> int:
    """Return the line of the value at this path, or of the nearest thing around it."""
    line = node.start_mark.line
    for step in path:
        match node:
            case yaml.MappingNode():
                found = next(((key, value) for key, value in node.value if key.value == step), None)
                if found is None:
                    break
                line, node = found[0].start_mark.line, found[1]
            case yaml.SequenceNode() if isinstance(step, int) and step < len(node.value):
                node = node.value[step]
                line = node.start_mark.line
            case _:
                break
    return line + 1


def _repeated_keys(node: yaml.Node) -> Iterator[yaml.ScalarNode]:
    """Yield the keys that stand twice in one object; YAML would silently take the last."""
    if isinstance(node, yaml.MappingNode):
        seen = set()
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    yield key
                seen.add(key.value)
            yield from _repeated_keys(value)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            yield from _repeated_keys(value)


def _repetitions(manifests: Iterable[Manifest]) -> Iterator[str]:
    first: dict[ModelId, Manifest] = {}
    for manifest in manifests:
        other = first.setdefault(manifest.deployment.model_id, manifest)
        if other is not manifest:
            place = f"{manifest.file}:{manifest.line}"
            yield f"{place}: {manifest.deployment.model_id} is already defined at {other.file}:{other.line}"


def _repeated_pools(pools: Iterable[PoolManifest]) -> Iterator[str]:
    first: dict[str, PoolManifest] = {}
    for one in pools:
        other = first.setdefault(one.pool.pool_id, one)
        if other is not one:
            place = f"{one.file}:{one.line}"
            yield f"{place}: the EnginePool {one.pool.pool_id} is already defined at {other.file}:{other.line}"
