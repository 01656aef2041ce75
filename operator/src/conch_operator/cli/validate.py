"""`conch validate`: says of each object in some files whether Conch would accept it and could serve its folder."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from conch_contracts.modeldeployment import ModelSpec
from conch_contracts.names import ServedName
from conch_contracts.records import ModelKind
from conch_contracts.spec.addresses import LEADS_BACK, leads_back
from conch_contracts.spec.quantities import quantity_value
from conch_contracts.spec.source import CLIMBS
from conch_operator.cli.input_files import pool_claims
from conch_operator.manifests.yaml_files import Manifest, ParsedManifests, PoolManifest, read, unknown_pools
from conch_operator.model_folder.chat_template import read_chat_template
from conch_operator.model_folder.errors import SourceError
from conch_operator.model_folder.reader import read_source
from conch_operator.reconcile.placement_faults import pool_fault, spec_fault
from conch_operator.state import DesiredModel, SourceFault


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command's arguments."""
    parser = commands.add_parser("validate", help="check ModelDeployment files, with the folders that they name")
    parser.add_argument("files", metavar="FILE", type=Path, nargs="+", help="a YAML file with ModelDeployments")
    parser.add_argument("--cluster", action="store_true",
                        help="the files are for a cluster: look at no folder of this machine")  # fmt: skip
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print ok per valid object, and one line per fault, per name and per place of a default that two objects want.

    The exit status is 1 when there are faults. Names may be shared for a while: who is served under one keeps it.
    """
    files: list[Path] = arguments.files
    reading = read(files)
    faults = [*reading.faults, *(() if arguments.cluster else unknown_pools(reading))]
    shared = [*_shared_names(reading.manifests), *_other_defaults(reading.manifests)]
    for manifest in reading.manifests:
        faults += _faults(manifest, on_cluster=arguments.cluster)
        faults += _placement_faults(manifest, reading, on_cluster=arguments.cluster)
    for one in () if arguments.cluster else reading.pools:
        faults += pool_claims(one)
    models = ((_place(one), one.deployment.model_id) for one in reading.manifests)
    pools = ((_place(one), one.pool.pool_id) for one in reading.pools)
    for place, name in (*models, *pools):
        if not any(fault.startswith(place) for fault in faults):
            print(f"{place} {name} ok")
    for line in (*faults, *shared):
        print(line, file=sys.stderr)
    return 1 if faults else 0


def _shared_names(manifests: Sequence[Manifest]) -> Iterator[str]:
    """Yield a warning for each served name that several models want."""
    first: dict[ServedName, Manifest] = {}
    for manifest in manifests:
        for name in manifest.deployment.served_names:
            other = first.setdefault(name, manifest)
            if other is not manifest:
                both = f"{manifest.deployment.model_id} and {other.deployment.model_id} ({other.file}:{other.line})"
                who = "who is served under it keeps it, else the older one gets it"
                yield f"{manifest.file}:{manifest.line}: warning: {both} want the name {name}; {who}"


def _other_defaults(manifests: Sequence[Manifest]) -> Iterator[str]:
    """Yield a warning for each model that would be the default beside another one of its kind."""
    first: dict[ModelKind, Manifest] = {}
    for manifest in manifests:
        model = manifest.deployment
        if model.spec.default and (other := first.setdefault(model.spec.kind, manifest)) is not manifest:
            both = f"{model.model_id} and {other.deployment.model_id} ({other.file}:{other.line})"
            what = f"are the default for kind {model.spec.kind}; the older one will be"
            yield f"{manifest.file}:{manifest.line}: warning: {both} {what}: set spec.default to false in one of them"


def _faults(manifest: Manifest, *, on_cluster: bool) -> Iterator[str]:
    """Yield what is wrong with the folder and the chat template that a model names."""
    place = f"{_place(manifest)} {manifest.deployment.model_id}"
    spec = manifest.deployment.spec
    template = spec.tokenizer.chat_template
    model = DesiredModel(manifest.deployment, manifest.file.resolve().parent, created=0)
    if on_cluster and spec.source.climbs:
        yield f"{place}: spec.source.{CLIMBS}"
    for field, address in _addresses(spec).items() if on_cluster else ():
        if address is not None and leads_back(address):
            yield f"{place}: {field}: {LEADS_BACK}"
    if not on_cluster and spec.source.path is not None:
        if isinstance(found := read_source(model), SourceFault):
            yield f"{place}: {found.message}"
    elif template is not None and template.config_map_key_ref is None:
        try:
            read_chat_template(model)
        except SourceError as error:
            yield f"{place}: {error}"


def _placement_faults(manifest: Manifest, reading: ParsedManifests, *, on_cluster: bool) -> Iterator[str]:
    """Yield what keeps a model out of the pool that it names; one that is in no file may be on the cluster."""
    deployment, pool_id = manifest.deployment, manifest.deployment.pool_id
    if pool_id is None:
        return
    place = f"{_place(manifest)} {deployment.model_id}"
    pool = next((one.pool.spec for one in reading.pools if one.pool.pool_id == pool_id), None)
    if on_cluster:
        for fault in (spec_fault(deployment), None if pool is None else pool_fault(deployment, pool_id, pool)):
            if fault is not None:
                yield f"{place}: {fault.message}"
    placement = deployment.spec.placement
    hint = None if placement is None else placement.size_hint
    if pool is not None and hint is not None and quantity_value(hint) > quantity_value(pool.memory):
        yield (
            f"{place}: spec.placement.sizeHint: {hint} is more than the memory of the EnginePool {pool_id}, "
            f"{pool.memory}: lower it to what the model takes, or raise spec.memory of the pool"
        )


def _place(found: Manifest | PoolManifest) -> str:
    """Return how every fault of this object begins."""
    return f"{found.file}:{found.line}:"


def _addresses(spec: ModelSpec) -> dict[str, str | None]:
    """Return what a model has Conch connect to, by its field."""
    external, bucket = spec.engine.external, spec.source.s3
    return {
        "spec.engine.external.grpc": external.grpc if external else None,
        "spec.engine.external.http": external.http if external else None,
        "spec.source.s3.endpoint": bucket.endpoint if bucket else None,
    }
