"""The download's process: `conch-download`. Its last line is `Reason: message`; its exit status is 1 when it failed.

It tries again for a few seconds only: whoever started it starts it again, later each time, and it goes on where it was.
"""

import logging
import os
import sys
import tempfile
from pathlib import Path

import certifi

from conch_contracts.conditions import Reason
from conch_kit.settings import StartupError, load
from conch_operator.download.connections import RuledConnections, hosts_of, refuse_forbidden_addresses
from conch_operator.download.errors import DownloadError, unreachable
from conch_operator.download.remote_source import Remote
from conch_operator.download.resumable_download import download_folder
from conch_operator.download.settings import DownloadProcessSettings

log = logging.getLogger(__name__)

_ALWAYS = {
    "AWS_EC2_METADATA_DISABLED": "true",
    "HF_HUB_DISABLE_XET": "1",  # its transfers can neither be resumed nor led through the proxy
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
}
_PROXIES = ("http_proxy", "https_proxy")


def main() -> int:
    """Download and return the exit status."""
    try:
        settings = load(DownloadProcessSettings, os.environ)  # noqa: TID251
    except StartupError as error:
        sys.stderr.write(f"conch-download: {error}\n")
        return 1
    sys.addaudithook(refuse_forbidden_addresses)
    try:
        _limit_connections(settings)
        _download(settings)
    except DownloadError as error:
        return _failed(settings, error)
    except Exception as error:
        log.exception("The download has ended because of an error that nobody foresaw.")
        message = f"{type(error).__name__}: {' '.join(str(error).split())}"
        return _failed(settings, DownloadError(Reason.DOWNLOAD_FAILED, message))
    return 0


def _download(settings: DownloadProcessSettings) -> None:
    with tempfile.TemporaryDirectory(prefix="conch-download-") as scratch:
        _prepare_libraries(settings, Path(scratch))
        download_folder(_remote(settings), settings.folder, settings.selection, settings.limit_bytes)


def _limit_connections(settings: DownloadProcessSettings) -> None:
    """Have the cluster's rules obeyed where the source names a server; raises DownloadError."""
    bucket = settings.wanted.s3
    if settings.address_rules is None or bucket is None or bucket.endpoint is None:
        return
    (named,) = hosts_of([bucket.endpoint])
    proxies = [value for name, value in os.environ.items() if name.lower() in _PROXIES]  # noqa: TID251
    connections = RuledConnections(settings.address_rules, settings.namespace, named, hosts_of(proxies))
    if not connections.allows_named():
        raise unreachable(bucket.endpoint, "EndpointConnectionError")
    sys.addaudithook(connections)


def _failed(settings: DownloadProcessSettings, error: DownloadError) -> int:
    sys.stdout.write(f"{error.line}\n")
    if settings.message_file is not None:
        settings.message_file.write_text(error.line)
    return 1


def _prepare_libraries(settings: DownloadProcessSettings, scratch: Path) -> None:
    """Set what the client libraries read from the environment when they are imported."""
    os.environ.update(_ALWAYS)  # noqa: TID251
    if settings.ca_bundle:
        bundle = scratch / "ca.crt"
        bundle.write_text(f"{Path(certifi.where()).read_text()}\n{settings.ca_bundle}")
        os.environ.update({"SSL_CERT_FILE": str(bundle), "AWS_CA_BUNDLE": str(bundle)})  # noqa: TID251


def _remote(settings: DownloadProcessSettings) -> Remote:
    """Return the client of the source; each takes a second to import, so only one is."""
    wanted = settings.wanted
    if wanted.hugging_face is not None:
        from conch_operator.download.hub import HubRepository

        return HubRepository(wanted.hugging_face, os.environ.get("HF_ENDPOINT"))  # noqa: TID251
    if wanted.s3 is not None:
        from conch_operator.download.bucket import BucketFolder

        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"  # noqa: TID251
        return BucketFolder(wanted.s3, region)
    raise AssertionError(f"sources of type {wanted.named} are not downloaded")


if __name__ == "__main__":
    sys.exit(main())
