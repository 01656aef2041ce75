"""What the commands are given: ModelDeployments and EnginePools in YAML files, or the older JSON file."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from conch_contracts.modeldeployment import parse
from conch_contracts.problems import InvalidObject
from conch_operator.cli.errors import CommandError
from conch_operator.manifests.legacy_model_config import Conversion, ModelConfigError, convert, place
from conch_operator.manifests.yaml_files import Manifest, ManifestError, ParsedManifests, PoolManifest, load

_STRING_OR_SPACE = re.compile(r'"(?:[^"\\]|\\.)*"|(?P<space>[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000\ufeff])')
"""A string; or a no-break or wide space, or a byte order mark, as the gateway reads them in bodies."""


def load_models(files: Sequence[Path], config_file: Path | None) -> tuple[ParsedManifests, tuple[str, ...]]:
    """Return what all files hold, and warnings; raises CommandError that names every fault."""
    try:
        found = load(files)
    except ManifestError as error:
        raise CommandError(error.faults) from error
    if claims := [fault for pool in found.pools for fault in pool_claims(pool)]:
        raise CommandError(claims)
    if config_file is None:
        return found, ()
    conversion = read_model_config(config_file)
    converted = parse_conversion(config_file, conversion)
    return replace(found, manifests=(*found.manifests, *converted)), conversion.warnings


def pool_claims(found: PoolManifest) -> Iterator[str]:
    """Yield a fault where a pool names claims, which are a cluster's."""
    if found.pool.spec.claims:
        place = f"{found.file}:{found.line}: {found.pool.metadata.name}"
        yield f"{place}: spec.claims: PersistentVolumeClaims need a cluster; remove them here"


def read_model_config(file: Path) -> Conversion:
    """Return what an older JSON file says; raises CommandError."""
    try:
        data = json.loads(_with_plain_spaces(file.read_text(encoding="utf-8")))
    except FileNotFoundError as error:
        raise CommandError([f"{file}: no such file"]) from error
    except json.JSONDecodeError as error:
        raise CommandError([f"{file}:{error.lineno}:{error.colno}: broken JSON: {error.msg}"]) from error
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError([f"{file}: cannot be read: {error}"]) from error
    try:
        return convert(data)
    except ModelConfigError as error:
        raise CommandError([f"{file}: {error}"]) from error


def _with_plain_spaces(text: str) -> str:
    """Return JSON that was copied from a page: between its strings such have other spaces than JSON."""
    return _STRING_OR_SPACE.sub(lambda found: " " if found["space"] else found[0], text)


def parse_conversion(file: Path, conversion: Conversion) -> tuple[Manifest, ...]:
    """Return the converted objects as models; raises CommandError."""
    manifests, faults = [], []
    for data in conversion.objects:
        try:
            manifests.append(Manifest(parse(data), file, 1))
        except InvalidObject as error:
            faults += [f"{file}: {place(data, problem)}: {problem.message}" for problem in error.problems]
    if faults:
        raise CommandError(faults)
    return tuple(manifests)
