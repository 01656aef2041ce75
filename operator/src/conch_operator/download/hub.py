"""The Hugging Face Hub, or a mirror of it; the only module that knows its client library.

That library lists; its download cannot be taken up again by another process, so files are fetched here.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

import httpx2
from huggingface_hub import HfApi, get_session, get_token, hf_hub_url, set_client_factory
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.hf_api import RepoFile

from conch_contracts.conditions import Reason
from conch_contracts.spec.source import HuggingFaceSource
from conch_operator.download.connections import ForbiddenConnection
from conch_operator.download.errors import DownloadError
from conch_operator.download.remote_source import Algorithm, Checksum, Listing, RemoteFile, append

_TIMEOUT = httpx2.Timeout(30.0, connect=5.0)
_PARTIAL = 206


class HubRepository:
    """One revision of one repository."""

    def __init__(self, source: HuggingFaceSource, endpoint: str | None, token: str | None = None) -> None:
        self._source = source
        self._commit = source.revision
        self._token = token or get_token()
        self._api = HfApi(endpoint, token=self._token or False, library_name="conch")
        set_client_factory(lambda: httpx2.Client(follow_redirects=True, timeout=_TIMEOUT))

    @property
    def name(self) -> str:
        """Return the repository with its revision."""
        return f"{self._source.repo} at {self._source.revision}"

    def listing(self) -> Listing:
        """Return what the revision is now, and its files."""
        with self._faults():
            info = self._api.model_info(self._source.repo, revision=self._source.revision)
            self._commit = info.sha or self._source.revision
            entries = self._api.list_repo_tree(self._source.repo, recursive=True, revision=self._commit)
            files = [_file(entry) for entry in entries if isinstance(entry, RepoFile)]
        return Listing(self._commit, files)

    def checksum(self, file: RemoteFile) -> Checksum | None:
        """Return nothing: the list has every file's."""
        return file.checksum

    def fetch(self, file: RemoteFile, into: BinaryIO, have: int) -> None:
        """Append a file's bytes; the token does not follow a redirect to another host."""
        url = hf_hub_url(self._source.repo, file.path, revision=self._commit, endpoint=self._api.endpoint)
        headers = {"accept-encoding": "identity"}
        if have:
            headers["range"] = f"bytes={have}-"
        if self._token:
            headers["authorization"] = f"Bearer {self._token}"
        with self._faults(), get_session().stream("GET", url, headers=headers) as answer:
            if not answer.is_success:
                gated = answer.headers.get("x-error-code") == "GatedRepo"
                raise self._gated() if gated else self._of_status(answer.status_code)
            if have and answer.status_code != _PARTIAL:
                into.seek(0)
                into.truncate()
            append(answer.iter_bytes(), into, file)

    @contextmanager
    def _faults(self) -> Iterator[None]:
        """Say in our words what went wrong."""
        try:
            yield
        except GatedRepoError as error:
            raise self._gated() from error
        except RevisionNotFoundError as error:
            raise DownloadError(Reason.SOURCE_NOT_FOUND, f"There is no {self.name}. Check the revision.") from error
        except RepositoryNotFoundError as error:
            raise self._unknown() from error
        except HfHubHTTPError as error:
            raise self._of_status(error.response.status_code) from error
        except httpx2.HTTPError as error:
            raise self._unreachable(error) from error
        except ValueError as error:
            why = next(iter(str(error).splitlines()), type(error).__name__)
            message = f"{self.name} cannot be downloaded: {why}"
            raise DownloadError(Reason.DOWNLOAD_FAILED, message) from error

    def _gated(self) -> DownloadError:
        message = f"{self.name} is gated. Ask for access on its page, and name a token of yours in tokenSecretRef."
        return DownloadError(Reason.SOURCE_ACCESS_DENIED, message)

    def _unknown(self) -> DownloadError:
        hint = "or the token may not read it" if self._token else "or it is private and needs tokenSecretRef"
        message = f"The Hub knows no {self.name}, {hint}. Check spec.source.huggingFace."
        return DownloadError(Reason.SOURCE_NOT_FOUND, message)

    def _of_status(self, status: int) -> DownloadError:
        if status == 401 and not self._token:
            return self._unknown()  # that is how the Hub speaks of what it does not have
        if status in (401, 403):
            message = f"The Hub refuses {self.name} with {status}. Check the token in tokenSecretRef and its rights."
            return DownloadError(Reason.SOURCE_ACCESS_DENIED, message)
        if status == 404:
            return DownloadError(Reason.SOURCE_NOT_FOUND, f"The Hub has no {self.name}, or no longer all its files.")
        reason = Reason.SOURCE_UNREACHABLE if status in (408, 429) or status >= 500 else Reason.DOWNLOAD_FAILED
        return DownloadError(reason, f"The Hub answers {status} for {self.name}.")

    def _unreachable(self, error: httpx2.HTTPError) -> DownloadError:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, ForbiddenConnection):
            cause = cause.__cause__ or cause.__context__
        if cause is not None:
            return DownloadError(Reason.DOWNLOAD_FAILED, f"{self.name} is not downloaded: {cause}.")
        how = str(error) or type(error).__name__
        return DownloadError(Reason.SOURCE_UNREACHABLE, f"The Hub at {self._api.endpoint} does not answer: {how}.")


def _file(entry: RepoFile) -> RemoteFile:
    if entry.lfs is not None:
        return RemoteFile(entry.path, entry.lfs.size, Checksum(Algorithm.SHA256, entry.lfs.sha256))
    return RemoteFile(entry.path, entry.size, Checksum(Algorithm.GIT_BLOB, entry.blob_id))
