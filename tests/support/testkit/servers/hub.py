"""A server that speaks the Hugging Face Hub's protocol to the real client library, for one folder of this machine.

Small files are git blobs, `*.safetensors` are LFS objects behind a redirect, as on the Hub. What it does wrong is asked
of it by `faults`. It needs nothing but Python, so it also runs in a pod: hub.py FOLDER PORT TOKEN.
"""

import hashlib
import json
import re
import ssl
import sys
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Self

REPO = "conch/tiny-chat"


@dataclass
class Faults:
    """What the server does wrong; a test may change it at any time."""

    token: str | None = None
    """Without this one in the request, the repository does not exist."""
    gated: bool = False
    """Without that token the repository is listed, and its files are refused."""
    status: int | None = None
    """Answer everything so."""
    cut_after: int | None = None
    """End an LFS object's transfer after so many bytes."""
    flip: bool = False
    """Change one byte of each LFS object."""
    redirect_to: str | None = None
    """Where LFS objects are said to be."""


@dataclass
class HubServer:
    """Serves one folder as one repository; a context manager."""

    folder: Path
    address: tuple[str, int] = ("127.0.0.1", 0)
    tls: ssl.SSLContext | None = None
    faults: Faults = field(default_factory=Faults)
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    """Method, path and Range of every request."""

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(self.address, _handler(self))
        self._server.daemon_threads = True
        if self.tls is not None:
            self._server.socket = self.tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        scheme = "https" if self.tls is not None else "http"
        self.url = f"{scheme}://127.0.0.1:{self._server.server_port}"  # as whoever is on this machine sees it
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def commit(self) -> str:
        """Return what `main` is; changes with the files."""
        content = "".join(f"{path} {git_blob(data)}" for path, data in sorted(self.files().items()))
        return hashlib.sha1(content.encode(), usedforsecurity=False).hexdigest()

    def files(self) -> dict[str, bytes]:
        """Return the repository's files."""
        found = (path for path in self.folder.rglob("*") if path.is_file())
        return {path.relative_to(self.folder).as_posix(): path.read_bytes() for path in found}

    def ranges(self, suffix: str) -> list[str]:
        """Return the Range of each transfer of files with this ending."""
        paths = {hashlib.sha256(data).hexdigest() for path, data in self.files().items() if path.endswith(suffix)}
        return [bytes_ for method, path, bytes_ in self.asked if method == "GET" and path.split("/")[-1] in paths]


def git_blob(data: bytes) -> str:
    """Return the name that git gives to this content."""
    return hashlib.sha1(f"blob {len(data)}\0".encode() + data, usedforsecurity=False).hexdigest()


def is_lfs(path: str) -> bool:
    """Return whether a file is kept outside of git."""
    return path.endswith((".safetensors", ".bin"))


def _handler(hub: HubServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            path = self.path.split("?")[0]
            hub.asked.append((self.command, path, self.headers.get("Range", "")))
            path = re.sub(r"^http://[^/]+", "", path)  # what a proxy is asked for
            if found := re.fullmatch(r"/lfs/([0-9a-f]{64})", path):
                self._lfs(found[1])
            elif (refusal := self._refusal(path)) is not None:
                self._send(*refusal)
            elif path.startswith(f"/api/models/{REPO}/revision/"):
                self._revision(path.rsplit("/", 1)[1])
            elif path.startswith(f"/api/models/{REPO}/tree/{hub.commit}"):
                self._json([_entry(name, data) for name, data in sorted(hub.files().items())])
            elif found := re.fullmatch(rf"/{REPO}/resolve/{hub.commit}/(.+)", path):
                self._file(found[1])
            else:
                self._send(404, b"", {"X-Error-Code": "RepoNotFound"})

        def _refusal(self, path: str) -> tuple[int, bytes, dict[str, str]] | None:
            faults = hub.faults
            if faults.status is not None:
                return faults.status, b"", {}
            given = self.headers.get("Authorization")
            if faults.token is None or given == f"Bearer {faults.token}":
                return None
            if given is not None:
                return 401, b"", {"X-Error-Message": "Invalid credentials in Authorization header"}
            if not faults.gated:
                return 401, b"", {}
            return None if path.startswith("/api/") else (401, b"", {"X-Error-Code": "GatedRepo"})

        def _revision(self, revision: str) -> None:
            if revision not in ("main", hub.commit):
                self._send(404, b"", {"X-Error-Code": "RevisionNotFound"})
                return
            self._json({"id": REPO, "sha": hub.commit, "siblings": [], "tags": [], "private": False})

        def _file(self, name: str) -> None:
            data = hub.files().get(name)
            if data is None:
                self._send(404, b"", {"X-Error-Code": "EntryNotFound"})
                return
            if not is_lfs(name):
                self._send(200, data, {"ETag": f'"{git_blob(data)}"', "X-Repo-Commit": hub.commit})
                return
            digest = hashlib.sha256(data).hexdigest()
            linked = {"X-Linked-ETag": f'"{digest}"', "X-Linked-Size": str(len(data)), "X-Repo-Commit": hub.commit}
            self._send(302, b"", {**linked, "Location": hub.faults.redirect_to or f"/lfs/{digest}"})

        def _lfs(self, digest: str) -> None:
            data = next(data for data in hub.files().values() if hashlib.sha256(data).hexdigest() == digest)
            if hub.faults.flip:
                data = bytes([data[0] ^ 1]) + data[1:]
            start = int((self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").rstrip("-"))
            rest = data[start:]
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
            self.send_header("Content-Length", str(len(rest)))
            self.end_headers()
            cut = hub.faults.cut_after
            try:
                self.wfile.write(rest if cut is None else rest[:cut])
            except ConnectionError:
                self.close_connection = True  # whoever asked has had enough
            if cut is not None and cut < len(rest):
                self.close_connection = True

        def _json(self, data: object) -> None:
            self._send(200, json.dumps(data).encode(), {"Content-Type": "application/json"})

        def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            pass

    return Handler


def _entry(path: str, data: bytes) -> dict[str, object]:
    entry: dict[str, object] = {"type": "file", "path": path, "size": len(data), "oid": git_blob(data)}
    if is_lfs(path):
        entry["lfs"] = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 134}
    return entry


if __name__ == "__main__":
    with HubServer(Path(sys.argv[1]), ("0.0.0.0", int(sys.argv[2])), faults=Faults(token=sys.argv[3])):
        threading.Event().wait()
