"""Which checksum an object's answer tells, and what each refusal is called; the rest is in `integration/`."""

import base64
from typing import Any

import pytest
from botocore.exceptions import ClientError, NoCredentialsError, ReadTimeoutError, UnknownSignatureVersionError

from conch_contracts.conditions import Reason
from conch_contracts.spec.source import S3Source
from conch_operator.download.bucket import BucketFolder
from conch_operator.download.connections import ForbiddenConnection
from conch_operator.download.errors import DownloadError
from conch_operator.download.remote_source import Algorithm, Checksum, RemoteFile

SIZE = 100
MD5, SHA256 = "0" * 32, bytes(range(32))
ENCODED = base64.b64encode(SHA256).decode()


class Client:
    """Answers for the whole object, and for its first part; or fails."""

    def __init__(self, whole: dict[str, Any], part: int = 0, failure: Exception | None = None) -> None:
        self._whole, self._part, self._failure = whole, part, failure

    def head_object(self, **asked: Any) -> dict[str, Any]:
        if self._failure is not None:
            raise self._failure
        return {"ContentLength": self._part} if "PartNumber" in asked else self._whole


def folder(client: Client) -> BucketFolder:
    made = BucketFolder(S3Source.model_validate({"uri": "s3://bucket/models/tiny"}), "us-east-1")
    made._client = client
    return made


@pytest.mark.parametrize(
    ("head", "part", "found"),
    [
        ({"ETag": f'"{MD5}"'}, 0, Checksum(Algorithm.MD5, MD5)),
        ({"ETag": f'"{MD5}"', "ChecksumSHA256": ENCODED}, 0, Checksum(Algorithm.SHA256, SHA256.hex())),
        ({"ETag": f'"{MD5}"', "ChecksumSHA256": f"{ENCODED}-3"}, 0, Checksum(Algorithm.MD5, MD5)),
        ({"ETag": f'"{MD5}-3"'}, 40, Checksum(Algorithm.MD5_OF_PARTS, f"{MD5}-3", 40)),
        ({"ETag": f'"{MD5}-1"'}, SIZE, None),
        ({"ETag": f'"{MD5}"', "ServerSideEncryption": "AES256"}, 0, Checksum(Algorithm.MD5, MD5)),
        ({"ETag": f'"{MD5}"', "ServerSideEncryption": "aws:kms"}, 0, None),
        ({"ETag": f'"{MD5}"', "SSECustomerAlgorithm": "AES256"}, 0, None),
        ({"ETag": '"an own form"'}, 0, None),
    ],
)
def test_a_checksum_is_believed_where_it_is_one_of_the_file(
    head: dict[str, Any], part: int, found: Checksum | None
) -> None:
    assert folder(Client(head, part)).checksum(RemoteFile("weights", SIZE)) == found


def refusal(status: int, code: str) -> ClientError:
    return ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, "HeadObject")


def forbidden() -> ReadTimeoutError:
    error = ReadTimeoutError(endpoint_url="http://169.254.169.254")
    error.__context__ = ForbiddenConnection("169.254.169.254 is a metadata service")
    return error


@pytest.mark.parametrize(
    ("failure", "reason", "says"),
    [
        (refusal(400, "ExpiredToken"), Reason.SOURCE_ACCESS_DENIED, "refused with ExpiredToken"),
        (refusal(401, "401"), Reason.SOURCE_ACCESS_DENIED, "refused with 401"),
        (refusal(403, "403"), Reason.SOURCE_ACCESS_DENIED, "refused with 403"),
        (refusal(412, "PreconditionFailed"), Reason.SOURCE_UNREACHABLE, "changes while it is downloaded"),
        (refusal(404, "404"), Reason.SOURCE_NOT_FOUND, r"There is no s3://bucket/models/tiny \(404\)"),
        (refusal(429, "SlowDown"), Reason.SOURCE_UNREACHABLE, "answers 429"),
        (refusal(503, "SlowDown"), Reason.SOURCE_UNREACHABLE, "answers 503"),
        (refusal(400, "Odd"), Reason.DOWNLOAD_FAILED, "answers 400"),
        (UnknownSignatureVersionError(signature_version="v9"), Reason.DOWNLOAD_FAILED, "cannot be downloaded"),
        (NoCredentialsError(), Reason.SOURCE_ACCESS_DENIED, "needs credentials"),
        (ReadTimeoutError(endpoint_url="http://s3"), Reason.SOURCE_UNREACHABLE, "AWS does not answer"),
        (forbidden(), Reason.DOWNLOAD_FAILED, "is not downloaded: 169"),
    ],
    ids=repr,
)
def test_a_failure_has_a_reason_that_says_what_to_do(failure: Exception, reason: Reason, says: str) -> None:
    with pytest.raises(DownloadError, match=says) as failed:
        folder(Client({}, failure=failure)).checksum(RemoteFile("weights", SIZE))
    assert failed.value.reason is reason


class Lister:
    """Lists one page."""

    def get_paginator(self, name: str) -> "Lister":
        return self

    def paginate(self, **asked: str) -> list[dict[str, Any]]:
        keys = ("models/tiny/", "models/tiny/config.json", "models/tiny/folder/", "models/tiny/folder/a")
        return [{"Contents": [{"Key": key, "Size": 1, "ETag": '"x"'} for key in keys]}, {}]


def test_what_stands_for_a_folder_is_no_file() -> None:
    client: Any = Lister()
    assert [file.path for file in folder(client).listing().files] == ["config.json", "folder/a"]
