"""Brings images into the node: archives that were built elsewhere, and images of one static binary."""

import hashlib
import io
import json
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from cluster.errors import ClusterError
from cluster.local.machine import Machine
from cluster.shell import say

_AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")


def names(machine: Machine) -> frozenset[str]:
    """Return the names of the node's images."""
    return frozenset(machine.ctr("images", "ls", "-q").stdout.split())


def load(machine: Machine, archive: Path) -> None:
    """Import an archive, unless the node has exactly its images already."""
    if _present(machine, archive):
        say(f"{archive.name} is there already.")
        return
    imported = machine.ctr("images", "import", "--all-platforms", archive)
    if imported.returncode:
        raise ClusterError(f"{archive} was not imported: {imported.stderr.strip()}")


def load_binary(machine: Machine, name: str, binary: Path) -> None:
    """Import an image that holds one static binary and nothing else."""
    if name in names(machine):
        return
    with tempfile.TemporaryDirectory(dir=machine.layout.temporary) as folder:
        layer, archive = Path(folder, "layer.tar"), Path(folder, "image.tar")
        _write_layer(layer, binary)
        digest = hashlib.sha256(layer.read_bytes()).hexdigest()
        config = {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Entrypoint": [f"/{binary.name}"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        }
        manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
        with tarfile.open(archive, "w") as tar:
            tar.add(layer, arcname="layer.tar")
            _add(tar, "config.json", config)
            _add(tar, "manifest.json", manifest)
        load(machine, archive)


def _write_layer(layer: Path, binary: Path) -> None:
    with tarfile.open(layer, "w") as tar:
        tar.add(binary, arcname=binary.name)
        for path in ("tmp", "etc"):
            entry = tarfile.TarInfo(path)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777
            tar.addfile(entry)
        if _AUTHORITIES.exists():
            tar.add(_AUTHORITIES, arcname=str(_AUTHORITIES).lstrip("/"))


def _add(tar: tarfile.TarFile, path: str, content: object) -> None:
    data = json.dumps(content).encode()
    entry = tarfile.TarInfo(path)
    entry.size = len(data)
    tar.addfile(entry, io.BytesIO(data))


def _present(machine: Machine, archive: Path) -> bool:
    """Tell whether the node's images of the archive's names have its very configurations."""
    wanted = _configurations(archive)
    return bool(wanted) and all(_node_configuration(machine, name) == digest for name, digest in wanted.items())


def _configurations(archive: Path) -> dict[str, str]:
    """Return each image's name and the digest of its configuration; nothing for an archive that is not Docker's."""
    try:
        with tarfile.open(archive) as tar:
            if "manifest.json" not in tar.getnames():
                return {}
            images: Sequence[dict[str, object]] = json.loads(_read(tar, "manifest.json"))
            return {
                str(tag): f"sha256:{hashlib.sha256(_read(tar, str(image['Config']))).hexdigest()}"
                for image in images
                for tag in _tags(image)
            }
    except (OSError, tarfile.TarError) as error:
        raise ClusterError(f"{archive} is no image archive: {error}") from error


def _tags(image: dict[str, object]) -> list[object]:
    tags = image["RepoTags"]
    return tags if isinstance(tags, list) else []


def _read(tar: tarfile.TarFile, path: str) -> bytes:
    file = tar.extractfile(path)
    return file.read() if file else b""


def _node_configuration(machine: Machine, name: str) -> str:
    listed = machine.ctr("images", "ls", f"name=={name}").stdout.splitlines()[1:]
    if not listed:
        return ""
    manifest = machine.ctr("content", "get", listed[0].split()[2])
    if manifest.returncode:
        return ""
    digest: str = json.loads(manifest.stdout).get("config", {}).get("digest", "")
    return digest
