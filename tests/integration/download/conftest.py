"""A small model to download, and downloads into a folder of the test's own."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from testkit.processes.conch_up import ROOT
from testkit.processes.downloads import Download


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Give the folder of a model with weights in two formats."""
    folder = tmp_path / "original"
    shutil.copytree(ROOT / "examples" / "tiny-chat", folder, ignore=shutil.ignore_patterns("golden.json"))
    (folder / "model.safetensors").write_bytes(os.urandom(3_000_000))
    (folder / "pytorch_model.bin").write_bytes(b"the same weights again")
    (folder / ".gitattributes").write_text("*.safetensors filter=lfs\n")
    return folder


@pytest.fixture
def wanted(model: Path) -> dict[str, bytes]:
    """Give the files that an engine needs."""
    skipped = ("pytorch_model.bin", ".gitattributes")
    return {path.name: path.read_bytes() for path in model.iterdir() if path.name not in skipped}


@pytest.fixture
def environ(tmp_path: Path) -> Mapping[str, str]:
    """Give an environment without settings of the client libraries."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}  # noqa: TID251
    return {**kept, "HOME": str(tmp_path), "HF_HOME": str(tmp_path / "hf")}


@pytest.fixture
def here(tmp_path: Path, environ: Mapping[str, str]) -> Download:
    """Give a place to download to."""
    return Download(tmp_path / "volume" / "tiny", environ)
