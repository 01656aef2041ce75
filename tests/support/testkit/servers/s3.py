"""moto's server as a process: it speaks S3's protocol, and checks signatures once it is told to."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.error import URLError
from urllib.request import urlopen

from botocore.config import Config
from botocore.session import Session

from testkit.processes.conch_up import free_port, wait_until
from testkit.processes.tied import tied

BUCKET = "models"
KEYS = {"AWS_ACCESS_KEY_ID": "conch", "AWS_SECRET_ACCESS_KEY": "secret"}
_BODY_READ_S = 120


class S3Server:
    """An S3 server with one bucket; a context manager that always ends it."""

    def __init__(self, free_requests: int | None = None) -> None:
        """`free_requests`: after so many, each must be signed with a key, and there are none."""
        self._free_requests = free_requests
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._folder = tempfile.TemporaryDirectory(prefix="conch-s3-")

    def __enter__(self) -> Self:
        environ = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}  # noqa: TID251
        if self._free_requests is not None:
            environ["INITIAL_NO_AUTH_ACTION_COUNT"] = str(self._free_requests)
        command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        log_file = Path(self._folder.name) / "log"
        with log_file.open("wb") as log:
            self._process = subprocess.Popen(tied(command), env=environ, stdout=log, stderr=subprocess.STDOUT)
        try:
            wait_until(lambda: self._answers() or self._process.poll() is not None, "an S3 server", 120)
            assert self._process.poll() is None, log_file.read_text()
            self.client.create_bucket(Bucket=BUCKET)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    @property
    def client(self) -> Any:
        """Return a client that may do everything."""
        session = Session()
        session.set_credentials(KEYS["AWS_ACCESS_KEY_ID"], KEYS["AWS_SECRET_ACCESS_KEY"])
        config = Config(s3={"addressing_style": "path"}, read_timeout=_BODY_READ_S)
        return session.create_client("s3", endpoint_url=self.url, region_name="us-east-1", config=config)

    def put_folder(self, folder: Path, prefix: str) -> None:
        """Upload the files of a folder."""
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            name = f"{prefix}/{path.relative_to(folder).as_posix()}"
            self.client.put_object(Bucket=BUCKET, Key=name, Body=path.read_bytes())

    def put_in_parts(self, key: str, data: bytes, part_bytes: int) -> None:
        """Upload one object in parts."""
        client, place = self.client, {"Bucket": BUCKET, "Key": key}
        upload = client.create_multipart_upload(**place)["UploadId"]
        parts = []
        for number, start in enumerate(range(0, len(data), part_bytes), 1):
            body = data[start : start + part_bytes]
            answer = client.upload_part(**place, UploadId=upload, PartNumber=number, Body=body)
            parts.append({"PartNumber": number, "ETag": answer["ETag"]})
        client.complete_multipart_upload(**place, UploadId=upload, MultipartUpload={"Parts": parts})

    def _answers(self) -> bool:
        try:
            with urlopen(f"{self.url}/moto-api/", timeout=30):
                return True
        except (URLError, ConnectionError, TimeoutError):
            return False

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._folder.cleanup()
