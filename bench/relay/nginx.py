"""nginx as a plain proxy: the cheapest thing that could stand where the gateway stands."""

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.processes import CannotMeasure, free_port, running, wait_for_port

_CONFIGURATION = """\
{user}
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/nginx-error.log warn;
worker_rlimit_nofile 16384;
events {{ worker_connections 8192; }}
http {{
    access_log off;
    keepalive_requests 1000000000;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    upstream worker {{
        server 127.0.0.1:{upstream};
        keepalive 256;
        keepalive_requests 1000000000;
    }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://worker;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering off;
        }}
    }}
}}
"""
_NO_NGINX = "nginx is missing and could not be installed; install it (Debian: apt-get install nginx-light)"


@dataclass(frozen=True, slots=True)
class Nginx:
    """A running nginx."""

    url: str
    pid: int


@asynccontextmanager
async def proxy(upstream_port: int, folder: Path) -> AsyncIterator[Nginx]:
    """Run nginx before a local port until the context ends."""
    binary = await _binary(folder)
    port, log, configuration = free_port(), folder / "nginx.log", folder / "nginx.conf"
    user = "user root;" if os.geteuid() == 0 else ""
    configuration.write_text(_CONFIGURATION.format(user=user, folder=folder, upstream=upstream_port, port=port))
    async with running([binary, "-p", str(folder), "-c", str(configuration)], log) as process:
        await wait_for_port(port, process, "nginx", log)
        yield Nginx(f"http://127.0.0.1:{port}", process.pid)


async def _binary(folder: Path) -> str:
    if found := _find():
        return found
    if os.geteuid() == 0 and shutil.which("apt-get"):
        print("nginx is missing: installing nginx-light with apt-get", file=sys.stderr)
        with (folder / "apt-get.log").open("wb") as log:
            command = ["apt-get", "install", "--yes", "--no-install-recommends", "nginx-light"]
            installer = await asyncio.create_subprocess_exec(
                *command, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log
            )
            await installer.wait()
    if found := _find():
        return found
    raise CannotMeasure(_NO_NGINX)


def _find() -> str | None:
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
