"""Downloads from a Hub: the real client library against a server that speaks the Hub's protocol."""

import fcntl
import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from conch_contracts.spec.source import HuggingFaceSource
from conch_operator.download.errors import DownloadError, parse_last_line
from conch_operator.download.hub import HubRepository
from conch_operator.download.resumable_download import NOTE
from testkit.processes.downloads import Download
from testkit.servers.hub import REPO, Faults, HubServer

NAME = f"{REPO} at main"
TOKEN = "hf_0123456789"


@pytest.fixture
def hub(model: Path) -> Iterator[HubServer]:
    with HubServer(model) as running:
        yield running


def repository(hub: HubServer, revision: str = "main", token: str | None = None) -> HubRepository:
    return HubRepository(HuggingFaceSource(repo=REPO, revision=revision), hub.url, token)


def test_a_repository_becomes_a_folder(hub: HubServer, here: Download, wanted: dict[str, bytes]) -> None:
    assert here.bring(repository(hub)) == ""
    assert here.files() == wanted


def test_what_is_there_is_not_asked_for_again(hub: HubServer, here: Download) -> None:
    assert here.bring(repository(hub)) == ""
    hub.asked.clear()
    hub.faults.status = 503
    assert here.bring(repository(hub)) == ""
    assert hub.asked == []


@pytest.mark.parametrize(
    ("selection", "left_out"),
    [
        ("tokenizer", {"model.safetensors", "pytorch_model.bin", "README.md"}),
        ("weights", {"pytorch_model.bin"}),
        ("all", set()),
    ],
)
def test_an_engine_gets_the_files_that_it_needs(
    hub: HubServer, here: Download, model: Path, selection: str, left_out: set[str]
) -> None:
    assert here.bring(repository(hub), selection) == ""
    assert {path.name for path in model.iterdir() if not path.name.startswith(".")} - here.files().keys() == left_out


def test_row_47_a_transfer_that_is_cut_goes_on_where_it_stopped(
    hub: HubServer, here: Download, wanted: dict[str, bytes]
) -> None:
    hub.faults.cut_after = 1_000_000
    assert here.bring(repository(hub)) == ""
    assert here.files() == wanted
    assert hub.ranges(".safetensors") == ["", "bytes=1000000-", "bytes=2000000-"]


def test_another_process_goes_on_where_the_last_one_stopped(
    hub: HubServer, here: Download, wanted: dict[str, bytes]
) -> None:
    assert here.bring(repository(hub)) == ""
    here.take_back("model.safetensors", 2_000_000)
    hub.asked.clear()
    assert here.bring(repository(hub)) == ""
    assert hub.ranges(".safetensors") == ["bytes=2000000-"]
    assert here.files() == wanted


def test_who_waits_for_another_pod_gives_up_at_last(hub: HubServer, here: Download, wanted: dict[str, bytes]) -> None:
    here.folder.parent.mkdir()
    with here.folder.with_name(".tiny.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        said = here.bring(repository(hub), lock_s=0.1)
    assert said.startswith(f"Downloading: Another pod is downloading the same files to {here.folder}")
    assert parse_last_line(said) is not None
    assert here.bring(repository(hub)) == ""
    assert here.files() == wanted


def test_a_file_may_be_called_as_if_it_were_a_part_of_another(
    hub: HubServer, here: Download, model: Path, wanted: dict[str, bytes]
) -> None:
    (model / "config.json.part").write_bytes(b"x")  # so small that it comes first
    assert here.bring(repository(hub)) == ""
    assert here.files() == wanted | {"config.json.part": b"x"}
    assert {path.name for path in here.folder.iterdir()} == {*here.files(), NOTE}


def test_a_new_version_begins_anew(hub: HubServer, here: Download, model: Path) -> None:
    assert here.bring(repository(hub)) == ""
    here.take_back("model.safetensors", 2_000_000)
    (model / "config.json").write_text("{}")
    hub.asked.clear()
    assert here.bring(repository(hub)) == ""
    assert here.files()["config.json"] == b"{}"
    assert hub.ranges(".safetensors") == [""]


def test_row_48_wrong_bytes_are_never_served(hub: HubServer, here: Download) -> None:
    hub.faults.flip = True
    line = here.bring(repository(hub))
    assert line == f"ChecksumMismatch: model.safetensors of {NAME} came with a wrong checksum."
    assert not here.folder.exists()
    assert not list(here.folder.parent.rglob("model.safetensors*"))


@pytest.mark.parametrize(
    ("faults", "revision", "line"),
    [
        (Faults(status=503), "main", f"SourceUnreachable: The Hub answers 503 for {NAME}."),
        (Faults(status=429), "main", f"SourceUnreachable: The Hub answers 429 for {NAME}."),
        (Faults(status=403), "main", f"SourceAccessDenied: The Hub refuses {NAME} with 403."),
        (Faults(status=404), "main", f"SourceNotFound: The Hub has no {NAME}"),
        (Faults(token=TOKEN), "main", f"SourceNotFound: The Hub knows no {NAME}, or it is private"),
        (Faults(token=TOKEN, gated=True), "main", f"SourceAccessDenied: {NAME} is gated"),
        (Faults(), "v9", f"SourceNotFound: There is no {REPO} at v9"),
    ],
)
def test_row_49_a_refusal_is_said_in_one_line(
    hub: HubServer, here: Download, faults: Faults, revision: str, line: str
) -> None:
    hub.faults = faults
    said = here.bring(repository(hub, revision))
    assert said.startswith(line)
    assert len(said.splitlines()) == 1


def test_a_repository_without_weights_is_refused(hub: HubServer, here: Download, model: Path) -> None:
    (model / "model.safetensors").unlink()
    assert here.bring(repository(hub)).startswith(f"SourceNotFound: {NAME} holds no *.safetensors files")


def test_a_body_that_is_too_long_is_not_read_to_its_end(hub: HubServer) -> None:
    source, come = repository(hub), io.BytesIO()
    listed = next(file for file in source.listing().files if file.path == "model.safetensors")
    source.fetch(replace(listed, size=1000), come, 0)
    assert 1000 < len(come.getvalue()) < listed.size


class Closed(io.BytesIO):
    """A file whose error says nothing."""

    def write(self, data: object) -> int:
        raise ValueError


def test_an_error_without_a_message_is_named(hub: HubServer) -> None:
    source = repository(hub)
    file = source.listing().files[0]
    with pytest.raises(DownloadError, match=f"{NAME} cannot be downloaded: ValueError"):
        source.fetch(file, Closed(), 0)


def test_a_token_opens_a_private_repository(hub: HubServer, here: Download) -> None:
    hub.faults.token = TOKEN
    said = here.bring(repository(hub, token="hf_wrong"))
    assert said.startswith(f"SourceAccessDenied: The Hub refuses {NAME} with 401")
    assert here.bring(repository(hub, token=TOKEN)) == ""


def test_row_12_a_model_that_is_too_large_is_refused_before_a_byte_comes(hub: HubServer, here: Download) -> None:
    said = here.bring(repository(hub), limit_bytes=1000)
    assert said == f"InsufficientStorage: {NAME} has 3.1 MB, and cache.size allows 1.0 KB. Raise it."
    assert hub.ranges(".safetensors") == []
