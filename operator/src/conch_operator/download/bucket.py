"""A folder in an S3 bucket; the only module that knows the S3 client library.

Credentials come from AWS_* variables or the user's own AWS files, never from a metadata service.
"""

import base64
import hashlib
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, BinaryIO

from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    HTTPClientError,
    NoCredentialsError,
    ResponseStreamingError,
)
from botocore.exceptions import ConnectionError as NoConnection
from botocore.session import Session

from conch_contracts.conditions import Reason
from conch_contracts.spec.source import S3Source
from conch_operator.download.connections import ForbiddenConnection
from conch_operator.download.errors import DownloadError, unreachable
from conch_operator.download.remote_source import Algorithm, Checksum, Listing, RemoteFile, append

_CHUNK = 1024 * 1024
_DENIED = frozenset({"AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken"})


class BucketFolder:
    """All objects below one prefix."""

    def __init__(self, source: S3Source, region: str) -> None:
        self._source = source
        self._bucket, _, prefix = source.uri.removeprefix("s3://").partition("/")
        self._prefix = f"{prefix.rstrip('/')}/" if prefix else ""
        self._etags: dict[str, str] = {}
        signed = source.credentials_secret_ref is not None
        own = {"signature_version": UNSIGNED} if not signed else {}
        config = Config(
            connect_timeout=5,
            read_timeout=30,
            retries={"total_max_attempts": 2, "mode": "standard"},
            s3={"addressing_style": "path" if source.endpoint else "auto"},
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            **own,
        )
        self._client: Any = Session().create_client(
            "s3", endpoint_url=source.endpoint, region_name=region, config=config
        )

    @property
    def name(self) -> str:
        """Return the folder's URI."""
        return self._source.uri

    def listing(self) -> Listing:
        """Return the objects below the prefix."""
        files, version = [], hashlib.sha256()
        with self._faults():
            for page in self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=self._prefix
            ):
                for found in page.get("Contents", ()):
                    path = str(found["Key"]).removeprefix(self._prefix)
                    if path.endswith("/") or not path:
                        continue  # what some tools make to show a folder
                    files.append(RemoteFile(path, int(found["Size"])))
                    self._etags[path] = str(found["ETag"])
                    version.update(f"{path}\0{found['ETag']}\0".encode())
        return Listing(version.hexdigest(), files)

    def checksum(self, file: RemoteFile) -> Checksum | None:
        """Return the SHA-256 that the server keeps, else what the ETag says; an encrypted object's says nothing."""
        with self._faults():
            head = self._head(file, ChecksumMode="ENABLED")
            if (sha256 := head.get("ChecksumSHA256")) and "-" not in sha256:
                return Checksum(Algorithm.SHA256, base64.b64decode(sha256).hex())
            etag = str(head["ETag"]).strip('"')
            if head.get("ServerSideEncryption", "AES256") != "AES256" or head.get("SSECustomerAlgorithm"):
                return None
            if re.fullmatch(r"[0-9a-f]{32}", etag):
                return Checksum(Algorithm.MD5, etag)
            if re.fullmatch(r"[0-9a-f]{32}-[0-9]+", etag):
                part_bytes = int(self._head(file, PartNumber=1)["ContentLength"])
                return Checksum(Algorithm.MD5_OF_PARTS, etag, part_bytes) if part_bytes < file.size else None
        return None

    def fetch(self, file: RemoteFile, into: BinaryIO, have: int) -> None:
        """Append an object's bytes; one that has changed since it was listed is refused by the server."""
        with self._faults():
            answer = self._client.get_object(
                **self._place(file), IfMatch=self._etags[file.path], Range=f"bytes={have}-"
            )
            with closing(answer["Body"]) as body:
                append(body.iter_chunks(_CHUNK), into, file)

    def _head(self, file: RemoteFile, **options: Any) -> dict[str, Any]:
        head: dict[str, Any] = self._client.head_object(**self._place(file), **options)
        return head

    def _place(self, file: RemoteFile) -> dict[str, str]:
        return {"Bucket": self._bucket, "Key": self._prefix + file.path}

    @contextmanager
    def _faults(self) -> Iterator[None]:
        """Say in our words what went wrong."""
        try:
            yield
        except ClientError as error:
            raise self._of_answer(error) from error
        except NoCredentialsError as error:
            message = f"{self.name} needs credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
            raise DownloadError(Reason.SOURCE_ACCESS_DENIED, message) from error
        except (NoConnection, HTTPClientError, ResponseStreamingError) as error:
            raise self._unreachable(error) from error
        except BotoCoreError as error:
            raise DownloadError(Reason.DOWNLOAD_FAILED, f"{self.name} cannot be downloaded: {error}") from error

    def _of_answer(self, error: ClientError) -> DownloadError:
        code = str(error.response.get("Error", {}).get("Code", ""))
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        if code in _DENIED or status in (401, 403):
            message = f"{self.name} is refused with {code}. Check the keys in credentialsSecretRef and their rights."
            return DownloadError(Reason.SOURCE_ACCESS_DENIED, message)
        if code == "PreconditionFailed":
            return DownloadError(Reason.SOURCE_UNREACHABLE, f"{self.name} changes while it is downloaded.")
        if status == 404:
            return DownloadError(
                Reason.SOURCE_NOT_FOUND, f"There is no {self.name} ({code}). Check spec.source.s3.uri."
            )
        reason = Reason.SOURCE_UNREACHABLE if status in (408, 429) or status >= 500 else Reason.DOWNLOAD_FAILED
        return DownloadError(reason, f"The server of {self.name} answers {status} ({code}).")

    def _unreachable(self, error: Exception) -> DownloadError:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, ForbiddenConnection):
            cause = cause.__cause__ or cause.__context__
        if cause is not None:
            return DownloadError(Reason.DOWNLOAD_FAILED, f"{self.name} is not downloaded: {cause}.")
        return unreachable(self._source.endpoint or "AWS", type(error).__name__)
