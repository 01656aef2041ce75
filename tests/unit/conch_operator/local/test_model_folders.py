import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from conch_operator.local.model_folders import AT_ONCE, ModelFolders
from conch_operator.model_folder.caching_reader import CachingFolderReader
from conch_operator.reconcile.calls_in_flight import Background
from conch_operator.state import DesiredModel, SourceFacts
from testkit.builders.model_deployments import desired_model

SOON = 60
"""Seconds that only end a test that hangs."""


class SlowDisk:
    """Says where folders are, and hangs about some models until it is told to go on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.hangs: set[str] = set()
        self.goes_on = threading.Event()
        self.asked: list[str] = []

    def __call__(self, model: DesiredModel) -> Path:
        name = model.deployment.metadata.name
        self.asked.append(name)
        if name in self.hangs:
            self.goes_on.wait()
        return self.folder


class Folders:
    """Folders on such a disk, as rounds ask for them that wait for nobody."""

    def __init__(self, disk: SlowDisk) -> None:
        self._changed = asyncio.Event()
        self._folders = ModelFolders(CachingFolderReader(disk), Background(changed=self._changed.set, patience_s=0))

    async def until_read(self, *models: DesiredModel, but: frozenset[str] = frozenset()) -> None:
        """Read in rounds, each begun by a folder that was read, until all of these models are known but some."""
        wanted = {model.id for model in models if model.deployment.metadata.name not in but}
        async with asyncio.timeout(SOON):
            while set(found := await self._folders.read_all(models)) != wanted:
                await self._changed.wait()
                self._changed.clear()
        assert all(isinstance(one, SourceFacts) for one in found.values())

    async def known(self, model: DesiredModel) -> bool:
        """Return whether a round hears of a model."""
        return model.id in await self._folders.read_all([model])


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SlowDisk]:
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": {"vocab": {"a": 0}}}))
    (tmp_path / "config.json").write_text(json.dumps({"vocab_size": 1, "max_position_embeddings": 8}))
    (tmp_path / "model.safetensors").write_bytes(b"")
    slow = SlowDisk(tmp_path)
    yield slow
    slow.goes_on.set()


async def test_a_folder_that_hangs_holds_up_no_other(disk: SlowDisk) -> None:
    disk.hangs = {"slow"}
    models = [desired_model(name) for name in ("slow", "one", "other")]
    folders = Folders(disk)
    await folders.until_read(*models, but=frozenset({"slow"}))
    assert disk.asked.count("slow") == 1, "it is not asked again while it hangs"
    disk.goes_on.set()
    await folders.until_read(*models)


async def test_a_folder_that_begins_to_hang_says_what_it_said_until_its_spec_is_edited(disk: SlowDisk) -> None:
    folders, model, edited = Folders(disk), desired_model("slow"), desired_model("slow", source={"path": "elsewhere"})
    await folders.until_read(model)
    disk.hangs = {"slow"}
    assert await folders.known(model)
    assert not await folders.known(edited)
    disk.goes_on.set()
    await folders.until_read(edited)


async def test_only_so_many_folders_are_read_at_a_time(disk: SlowDisk) -> None:
    models = [desired_model(f"model-{index}") for index in range(AT_ONCE + 2)]
    most, now, lock = 0, 0, threading.Lock()
    together = threading.Barrier(AT_ONCE)

    def folder_of(model: DesiredModel) -> Path:
        nonlocal most, now
        with lock:
            now += 1
            most = max(most, now)
        if model in models[:AT_ONCE]:
            together.wait(SOON)  # none of the first goes on before all of them are there
        with lock:
            now -= 1
        return disk.folder

    found = await ModelFolders(CachingFolderReader(folder_of)).read_all(models)
    assert (len(found), most) == (AT_ONCE + 2, AT_ONCE)
