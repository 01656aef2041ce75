"""`conch-download` as Kubernetes and `conch up` start it: settings, last line, and where it will not go."""

import asyncio
import json
import socket
from collections.abc import Mapping
from pathlib import Path

import pytest

from testkit.certificates import make_authority
from testkit.processes.downloads import Download
from testkit.servers.hub import REPO, HubServer
from testkit.servers.s3 import KEYS
from testkit.servers.scripted_http import ScriptedHttp

SOURCE = {"huggingFace": {"repo": REPO}}
TOKEN = "hf_0123456789"


def test_a_download_says_nothing_when_all_is_well(
    model: Path, here: Download, environ: Mapping[str, str], wanted: dict[str, bytes]
) -> None:
    with HubServer(model) as hub:
        hub.faults.token = TOKEN
        here.environ = {**environ, "HF_ENDPOINT": hub.url, "HF_TOKEN": TOKEN}
        ended = here.run(SOURCE)
    assert (ended.status, ended.output, ended.message) == (0, "", "")
    assert here.files() == wanted


def test_a_wrong_token_is_never_shown(model: Path, here: Download, environ: Mapping[str, str]) -> None:
    with HubServer(model) as hub:
        hub.faults.token = TOKEN
        here.environ = {**environ, "HF_ENDPOINT": hub.url, "HF_TOKEN": "hf_wrong"}
        ended = here.run(SOURCE)
    assert ended.status == 1
    assert ended.message.startswith("SourceAccessDenied: The Hub refuses")
    assert "hf_wrong" not in ended.output + ended.message


def test_row_6_a_redirect_to_a_metadata_service_is_not_followed(
    model: Path, here: Download, environ: Mapping[str, str]
) -> None:
    with HubServer(model) as hub:
        hub.faults.redirect_to = "http://169.254.169.254/latest/meta-data"
        here.environ = {**environ, "HF_ENDPOINT": hub.url}
        ended = here.run(SOURCE)
    assert ended.message == (
        f"DownloadFailed: {REPO} at main is not downloaded: 169.254.169.254 is a link-local address or a cloud's "
        "metadata service."
    )


@pytest.mark.parametrize(
    ("source", "line"),
    [
        (SOURCE, "SourceUnreachable: The Hub at http://127.0.0.1:9 does not answer"),
        (
            {"s3": {"uri": "s3://models/tiny", "endpoint": "http://127.0.0.1:9"}},
            "SourceUnreachable: http://127.0.0.1:9 does not answer",
        ),
    ],
)
def test_a_server_that_is_away_is_named_within_seconds(
    here: Download, environ: Mapping[str, str], source: dict[str, object], line: str
) -> None:
    here.environ = {**environ, "HF_ENDPOINT": "http://127.0.0.1:9"}
    assert here.run(source).message.startswith(line)


def test_a_server_that_the_cluster_lets_nobody_name_is_told_as_one_that_is_away(
    here: Download, environ: Mapping[str, str]
) -> None:
    here.environ = environ
    away = here.run({"s3": {"uri": "s3://models/tiny", "endpoint": "http://127.0.0.1:9"}})
    assert "EndpointConnectionError" in away.message
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        source = {"s3": {"uri": "s3://models/tiny", "endpoint": f"http://127.0.0.1:{port}"}}
        for rules in ({}, {"allowed": ["127.0.0.0/8"], "own": ["127.0.0.1"]}):
            refused = here.run(source, address_rules=json.dumps(rules), namespace="team")
            assert refused.message.replace(f":{port}", ":9") == away.message
        server.settimeout(0)
        with pytest.raises(BlockingIOError):
            server.accept()


def test_the_authorities_of_the_settings_are_trusted_beside_others(
    tmp_path: Path, model: Path, here: Download, environ: Mapping[str, str], wanted: dict[str, bytes]
) -> None:
    authority = make_authority(tmp_path)
    with HubServer(model, tls=authority.server) as hub:
        here.environ = {**environ, "HF_ENDPOINT": hub.url}
        refused = here.run(SOURCE)
        ended = here.run(SOURCE, ca_bundle=authority.pem)
    assert refused.message.startswith(f"SourceUnreachable: The Hub at {hub.url} does not answer: [SSL: CERTIFICATE_VER")
    assert (ended.status, ended.message) == (0, "")
    assert here.files() == wanted


def test_a_proxy_is_used(model: Path, here: Download, environ: Mapping[str, str], wanted: dict[str, bytes]) -> None:
    with HubServer(model) as proxy:  # asked for whole URLs, as a proxy is; it answers as the Hub would
        here.environ = {**environ, "HF_ENDPOINT": "http://hub.example.com", "HTTP_PROXY": proxy.url}
        ended = here.run(SOURCE)
    assert (ended.status, ended.message) == (0, "")
    assert here.files() == wanted
    assert all(path.startswith("http://hub.example.com/") for _, path, _ in proxy.asked)


def test_a_wrong_setting_is_named(here: Download) -> None:
    ended = here.run(SOURCE, "everything")
    assert ended.status == 1
    assert "CONCH_SELECTION" in ended.output
    assert "Traceback" not in ended.output


async def test_an_error_that_nobody_foresaw_has_a_reason_too(here: Download, environ: Mapping[str, str]) -> None:
    listing = b"<ListBucketResult><Contents><Key>tiny/a</Key><Size>1</Size></Contents></ListBucketResult>"  # no ETag
    async with ScriptedHttp(lambda call: call.answer(listing)) as server:
        here.environ = {**environ, **KEYS}
        source = {"uri": "s3://models/tiny", "endpoint": server.url, "credentialsSecretRef": {"name": "keys"}}
        ended = await asyncio.to_thread(here.run, {"s3": source})
    line = "DownloadFailed: KeyError: 'ETag'"
    assert (ended.status, ended.message) == (1, line), ended.output
    assert "Traceback" in ended.output
    assert ended.output.endswith(f"\n{line}\n")
