"""Installs, starts and measures the peers, one after the other; one that fails is a line of the section."""

import asyncio
import shutil
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import orjson
import psutil

from bench.clients.remote import load_client
from bench.conversations import MODEL_NAME, ROOT
from bench.peers import rows
from bench.peers.table import Peer
from bench.processes import CannotMeasure, free_port, running, tail
from bench.relay.measure import RelayBench
from bench.relay.stack import RelayStack
from bench.report import Section

_INSTALLED = ROOT / ".conch" / "peers"
_START_S = 60.0


async def section(bench: RelayBench, built: RelayStack, peers: Sequence[Peer], folder: Path) -> Section:
    """Measure every peer in turns with nginx."""
    return rows.section([await _result(bench, built, peer, folder) for peer in peers])


async def _result(bench: RelayBench, built: RelayStack, peer: Peer, folder: Path) -> rows.Measured | rows.NotMeasured:
    print(f"peers: {peer.title}", file=sys.stderr)
    try:
        program = await _installed(peer)
        async with (
            _started(peer, program, built.worker_port, folder) as (url, pid),
            load_client("bench.clients.http_load", (url,), peer.name, folder) as client,
        ):
            beside = replace(bench, roles=built.roles_with({pid: peer.name}))
            return rows.Measured(peer, *await beside.compare(bench.nginx, client))
    except (CannotMeasure, OSError, psutil.Error) as exc:
        return rows.NotMeasured(peer, str(exc) or type(exc).__name__)


async def _installed(peer: Peer) -> str:
    if peer.requirement is None:
        return await _debian(peer)
    home, log = _INSTALLED / peer.name, _INSTALLED / f"{peer.name}.log"
    stamp, program = home / "requirement", home / "bin" / peer.arguments[0]
    if not stamp.exists() or stamp.read_text() != peer.requirement:
        _INSTALLED.mkdir(parents=True, exist_ok=True)
        await _run(("python3", "-m", "venv", "--clear", str(home)), log)
        await _run((str(home / "bin" / "pip"), "install", "--quiet", peer.requirement), log)
        stamp.write_text(peer.requirement)
    return str(program)


async def _debian(peer: Peer) -> str:
    search = "/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin"
    if not shutil.which(peer.name, path=search):
        _INSTALLED.mkdir(parents=True, exist_ok=True)
        package = f"{peer.name}={peer.version}-*"
        await _run(("apt-get", "install", "--yes", "--no-install-recommends", package), _INSTALLED / "apt-get.log")
    if found := shutil.which(peer.name, path=search):
        return found
    raise CannotMeasure(f"{peer.name} is not there after its installation.")


async def _run(command: Sequence[str], log: Path) -> None:
    async with running(command, log) as process:
        if await process.wait():
            raise CannotMeasure(f"{command[0]} failed: {tail(log, 250)}")


@asynccontextmanager
async def _started(peer: Peer, program: str, upstream: int, folder: Path) -> AsyncIterator[tuple[str, int]]:
    port, log, configuration = free_port(), folder / f"{peer.name}.log", folder / f"{peer.name}.conf"
    filled = {"port": port, "upstream": upstream, "metrics": free_port(), "configuration": configuration}
    configuration.write_text(peer.configuration.format(**filled))
    arguments = [argument.format(**filled) for argument in peer.arguments[1:]]
    async with running([program, *arguments], log) as process:
        url, deadline = f"http://127.0.0.1:{port}", time.monotonic() + _START_S
        while not await asyncio.to_thread(_answers, url):
            if process.returncode is not None or time.monotonic() > deadline:
                raise CannotMeasure(f"it does not answer: {tail(log, 250)}")
            await asyncio.sleep(0.2)
        yield url, process.pid


def _answers(url: str) -> bool:
    body = orjson.dumps({"model": MODEL_NAME, "messages": [{"role": "user", "content": "Hello"}]})
    try:
        with urlopen(Request(f"{url}/v1/chat/completions", body, {"Content-Type": "application/json"}), timeout=5):
            return True
    except (HTTPError, URLError, ConnectionError, TimeoutError):
        return False
