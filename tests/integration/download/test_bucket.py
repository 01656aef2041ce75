"""Downloads from a bucket: the real client library against moto's server."""

import io
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from conch_contracts.conditions import Reason
from conch_contracts.spec.source import S3Source
from conch_operator.download.bucket import BucketFolder
from conch_operator.download.errors import DownloadError
from testkit.processes.downloads import Download
from testkit.servers.s3 import BUCKET, KEYS, S3Server

PREFIX = "team/tiny"
NAME = f"s3://{BUCKET}/{PREFIX}"


@pytest.fixture(scope="module")
def running() -> Iterator[S3Server]:
    with S3Server() as found:
        yield found


@pytest.fixture
def server(running: S3Server, model: Path) -> S3Server:
    """Give a server that holds the model."""
    running.put_folder(model, PREFIX)
    return running


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)


def folder(server: S3Server, uri: str = NAME) -> BucketFolder:
    source = {"uri": uri, "endpoint": server.url, "credentialsSecretRef": {"name": "keys"}}
    return BucketFolder(S3Source.model_validate(source), "us-east-1")


def test_a_folder_of_a_bucket_becomes_a_folder(server: S3Server, here: Download, wanted: dict[str, bytes]) -> None:
    assert here.bring(folder(server)) == ""
    assert here.files() == wanted


def test_an_object_of_several_parts_is_checked_too(server: S3Server, here: Download) -> None:
    data, part_bytes = os.urandom(12_000_000), 5 * 1024 * 1024
    server.put_in_parts(f"{PREFIX}/model.safetensors", data, part_bytes)
    assert here.bring(folder(server)) == ""
    assert here.files()["model.safetensors"] == data
    here.take_back("model.safetensors", 12_000_000, spoiled=True)
    assert here.bring(folder(server)) == "", "the second attempt begins anew"
    assert here.files()["model.safetensors"] == data


def test_another_process_goes_on_where_the_last_one_stopped(
    server: S3Server, here: Download, wanted: dict[str, bytes]
) -> None:
    assert here.bring(folder(server)) == ""
    here.take_back("model.safetensors", 1_000_000)
    assert here.bring(folder(server)) == ""
    assert here.files() == wanted


def test_what_was_spoiled_is_fetched_again(server: S3Server, here: Download, wanted: dict[str, bytes]) -> None:
    assert here.bring(folder(server)) == ""
    here.take_back("model.safetensors", 1_000_000, spoiled=True)
    assert here.bring(folder(server)) == ""
    assert here.files() == wanted


def test_an_object_that_has_changed_since_it_was_listed_is_not_mixed_with_the_old_one(server: S3Server) -> None:
    source, come = folder(server), io.BytesIO(b"half")
    listed = next(file for file in source.listing().files if file.path == "config.json")
    server.client.put_object(Bucket=BUCKET, Key=f"{PREFIX}/config.json", Body=b"x" * listed.size)
    with pytest.raises(DownloadError, match="changes while it is downloaded") as raised:
        source.fetch(listed, come, 4)
    assert (raised.value.reason, come.getvalue()) == (Reason.SOURCE_UNREACHABLE, b"half")


def test_a_body_that_is_too_long_is_not_read_to_its_end(server: S3Server) -> None:
    source, come = folder(server), io.BytesIO()
    listed = next(file for file in source.listing().files if file.path == "model.safetensors")
    source.fetch(replace(listed, size=1000), come, 0)
    assert 1000 < len(come.getvalue()) < listed.size


@pytest.mark.parametrize(
    ("uri", "line"),
    [
        ("s3://nothing-here/tiny", "SourceNotFound: There is no s3://nothing-here/tiny (NoSuchBucket)."),
        (f"s3://{BUCKET}/empty", f"SourceNotFound: s3://{BUCKET}/empty holds no *.safetensors files."),
    ],
)
def test_what_is_not_there_is_named(server: S3Server, here: Download, uri: str, line: str) -> None:
    assert here.bring(folder(server, uri)).startswith(line)


def test_credentials_are_demanded(server: S3Server, here: Download, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    assert here.bring(folder(server)).startswith(f"SourceAccessDenied: {NAME} needs credentials")


def test_wrong_credentials_are_named(here: Download) -> None:
    with S3Server(free_requests=1) as server:
        said = here.bring(folder(server))
    assert said.startswith(f"SourceAccessDenied: {NAME} is refused with InvalidAccessKeyId.")
