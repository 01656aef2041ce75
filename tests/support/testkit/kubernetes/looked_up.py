"""A server with a few objects, which Helm's `lookup` takes for an API server: for what a chart makes of a release."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import yaml

from testkit.kubernetes.chart import Object

_KINDS: Mapping[str, tuple[tuple[str, str, bool], ...]] = {
    "/api/v1": (
        ("configmaps", "ConfigMap", True),
        ("secrets", "Secret", True),
        ("persistentvolumeclaims", "PersistentVolumeClaim", True),
    ),
    "/apis/storage.k8s.io/v1": (("storageclasses", "StorageClass", False),),
}


@contextmanager
def looked_up(folder: Path, *objects: Object) -> Iterator[Path]:
    """Give a kubeconfig, written into this folder, of a server that has these ConfigMaps and nothing else."""
    held = {f"/api/v1/namespaces/{_place(one)[0]}/configmaps/{_place(one)[1]}": one for one in objects}
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Answers, held))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield _kubeconfig(folder, server.server_port)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _place(made: Object) -> tuple[str, str]:
    return made["metadata"]["namespace"], made["metadata"]["name"]


def _kubeconfig(folder: Path, port: int) -> Path:
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "held", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "nobody", "user": {}}],
        "contexts": [{"name": "held", "context": {"cluster": "held", "user": "nobody"}}],
        "current-context": "held",
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


class _Answers(BaseHTTPRequestHandler):
    def __init__(self, held: Mapping[str, Object], *connection: object) -> None:
        self._held = held
        super().__init__(*connection)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        if path in _KINDS:
            self._say(200, _resources(path))
        elif path in self._held:
            self._say(200, self._held[path])
        elif path == "/apis/storage.k8s.io/v1/storageclasses":
            self._say(200, {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClassList", "items": []})
        else:
            self._say(
                404, {"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}
            )

    def _say(self, status: int, content: Object) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def _resources(path: str) -> Object:
    kinds = [
        {"name": name, "singularName": "", "namespaced": namespaced, "kind": kind, "verbs": ["get", "list"]}
        for name, kind, namespaced in _KINDS[path]
    ]
    version = path.removeprefix("/apis/").removeprefix("/api/")
    return {"apiVersion": "v1", "kind": "APIResourceList", "groupVersion": version, "resources": kinds}
