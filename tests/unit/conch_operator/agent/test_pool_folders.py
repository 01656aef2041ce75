"""The folders of a pool's models, which its agent reads among the files of the server's container."""

import asyncio
import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from conch_contracts.conditions import Reason
from conch_kit.bundles.archive import BundleError, digest
from conch_operator.agent import pool_folders
from conch_operator.agent.messages import FaultReport, FolderReport
from conch_operator.agent.pod_server import PodServer
from conch_operator.agent.pool_folders import CLAIMS, PoolFolders
from conch_operator.agent.pool_messages import FolderQuestion
from testkit.processes.played_server import play_server
from testkit.waiting import eventually


class Scene:
    """An agent beside a server that is started when a test says so."""

    def __init__(self, processes: Path) -> None:
        self._processes = processes
        self._server = PodServer(lambda: None, processes)
        self.folders = PoolFolders(self._server)

    def start_server(self) -> Path:
        """Start it, and return where its files are."""
        root = play_server(self._processes)
        self._server.look()
        return root

    async def facts(self, folder: str) -> FolderReport:
        said = await self.folders.report(asked(folder))
        assert said.facts is not None, said.fault
        return said.facts

    async def fault(self, folder: str) -> FaultReport:
        said = await self.folders.report(asked(folder))
        assert said.fault is not None
        return said.fault


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def asked(folder: str) -> FolderQuestion:
    return FolderQuestion(folder=folder, weights=True, config=True, onnx=True)


def model_in(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": {"a": 0, "b": 1}}}))
    (folder / "config.json").write_text(json.dumps({"max_position_embeddings": 8}))
    (folder / "model.safetensors").write_bytes(b"1234")
    return folder


async def test_it_reads_a_folder_among_the_files_of_the_server(scene: Scene) -> None:
    assert (await scene.fault("/models/tiny")).reason is Reason.WAITING
    root = scene.start_server()
    fault = await scene.fault("/models/tiny")
    assert (fault.reason, fault.message) == (
        Reason.FOLDER_MISSING,
        "The folder /models/tiny does not exist. Check spec.source.",
    )
    folder = model_in(root / "models" / "tiny")
    facts = await scene.facts("/models/tiny")
    assert (facts.folder, facts.vocab_size, facts.weight_bytes) == ("/models/tiny", 2, 4)
    said, bundle = await scene.folders.bundle(asked("/models/tiny"))
    assert said == digest(bundle) == facts.digest
    (folder / "tokenizer.json").unlink()
    assert await scene.facts("/models/tiny") == facts  # it is read once


async def test_a_claim_that_hangs_holds_up_the_folders_of_no_other(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_folders, "_ALONE_S", 0.1)
    root = scene.start_server()
    hangs, same, other = (f"{CLAIMS}/{path}" for path in ("nfs/hangs", "nfs/good", "disk/good"))
    for folder in (hangs, same, other, "/models/tiny"):
        model_in(root / folder[1:])
    fifo = root / hangs[1:] / "tokenizer.json"
    fifo.unlink()
    os.mkfifo(fifo)  # whoever reads it waits for a writer
    waiting = [asyncio.create_task(scene.folders.report(asked(folder))) for folder in (hangs, same)]
    async with asyncio.timeout(30):
        for folder in (other, "/models/tiny"):
            facts = await scene.facts(folder)
            assert (await scene.folders.bundle(asked(folder)))[0] == facts.digest
        assert not any(task.done() for task in waiting)
        await asyncio.to_thread(fifo.write_text, "{}")
        assert [(await task).facts is not None for task in waiting] == [False, True]


async def test_who_asks_again_and_again_about_a_disk_that_hangs_makes_it_no_worse(scene: Scene) -> None:
    folder = model_in(scene.start_server() / "models" / "tiny")
    fifo = folder / "tokenizer.json"
    fifo.unlink()
    os.mkfifo(fifo)  # whoever reads it waits for a writer's words
    first = asyncio.create_task(scene.folders.report(asked("/models/tiny")))
    writers: list[int] = []

    def is_being_read() -> bool:
        with suppress(OSError):  # ENXIO: nobody reads it yet
            writers.append(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
        return bool(writers)

    async def tasks_after_an_answer_that_does_not_come() -> int:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await scene.folders.report(asked("/models/tiny"))
        return len(asyncio.all_tasks())

    await eventually(is_being_read, "the folder to be read")
    try:
        assert len({await tasks_after_an_answer_that_does_not_come() for _ in range(5)}) == 1
    finally:
        os.write(writers[0], b"{}")
        os.close(writers[0])
    async with asyncio.timeout(30):
        await first
    await eventually(lambda: len(asyncio.all_tasks()) == 1, "the end of all that was asked")


async def test_only_what_was_read_last_is_remembered(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_folders, "MOST_KNOWN", 2)
    root = scene.start_server()
    folders = [f"/models/{number}" for number in range(3)]
    for folder in folders:
        model_in(root / folder[1:])
        await scene.facts(folder)
        (root / folder[1:] / "tokenizer.json").unlink()
    assert [(await scene.folders.report(asked(folder))).facts is not None for folder in folders] == [False, True, True]


async def test_folders_and_bundles_are_read_one_after_the_other(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    root, now, most = scene.start_server(), 0, 0
    packed = pool_folders.pack

    def counted(folder: Path) -> object:
        nonlocal now, most
        now += 1
        most = max(most, now)
        time.sleep(0.02)  # else it may be over before another begins
        now -= 1
        return packed(folder)

    monkeypatch.setattr(pool_folders, "pack", counted)
    folders = [f"{CLAIMS}/{number}/model" for number in range(8)]
    for folder in folders:
        model_in(root / folder[1:])
    await asyncio.gather(*(scene.folders.bundle(asked(folder)) for folder in folders))
    assert most == 1


def absolute(root: Path, folder: Path) -> None:
    (folder / "config.json").rename(root / "config.json")
    (folder / "config.json").symlink_to("/config.json")


def climbing(root: Path, folder: Path) -> None:
    (folder / "config.json").unlink()
    (folder / "config.json").symlink_to("../../../config.json")


def through_another(root: Path, folder: Path) -> None:
    absolute(root, folder)
    (folder / "config.json").rename(root / "models" / "link")
    (folder / "config.json").symlink_to("../link")


def one_level_deeper(root: Path, folder: Path) -> None:
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").symlink_to("/etc/hostname")


@pytest.mark.parametrize(
    ("lay", "named"),
    [
        (absolute, "/models/tiny/config.json"),
        (climbing, "/models/tiny/config.json"),
        (through_another, "/models/tiny/config.json"),
        (one_level_deeper, "/models/tiny/1_Pooling/config.json"),
    ],
)
async def test_a_link_that_leads_elsewhere_for_the_agent_than_for_the_server_is_refused(
    scene: Scene, lay: Callable[[Path, Path], None], named: str
) -> None:
    root = scene.start_server()
    lay(root, model_in(root / "models" / "tiny"))
    fault = await scene.fault("/models/tiny")
    assert fault.reason is Reason.FILES_INVALID
    assert fault.message.startswith(f"{named} is or follows a link")
    with pytest.raises(BundleError, match="Make it relative"):
        await scene.folders.bundle(asked("/models/tiny"))


async def test_so_is_a_folder_that_is_one_but_a_relative_one_is_followed(scene: Scene) -> None:
    root = scene.start_server()
    snapshot = model_in(root / "conch" / "claims" / "a" / "snapshots" / "1")
    (snapshot / "config.json").rename(snapshot.parent.parent / "blob")
    (snapshot / "config.json").symlink_to("../../blob")
    (root / "conch" / "claims" / "a" / "model").symlink_to("snapshots/1")
    (root / "conch" / "claims" / "a" / "other").symlink_to("/conch/claims/a/snapshots/1")
    assert (await scene.facts(f"{CLAIMS}/a/model")).max_position_embeddings == 8
    assert (await scene.fault(f"{CLAIMS}/a/other")).message.startswith(f"{CLAIMS}/a/other is or follows a link")
