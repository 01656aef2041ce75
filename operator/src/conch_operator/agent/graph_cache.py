"""What the runtime keeps of a pool's models, so that they come in faster the next time: it goes before a disk is full.

It lies on the node, in the server's container, in a folder for each model. The kubelet ends pods of a node whose disk
is full, so what was used longest ago of models that are not in is removed while there is still room.
"""

import asyncio
import logging
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from conch_kit.background_loops import BackgroundLoops
from conch_operator.agent.pod_server import PodServer
from conch_operator.engine_pools.loaded_models import LoadedModels

log = logging.getLogger(__name__)

CACHE = "/tmp/conch-cache"
"""Where the server keeps it, by the names that models have in Triton."""
LEAST_FREE = 0.15
"""Which part of the disk is to be free: below a tenth the kubelet ends pods, by default."""
_LOOK_S = 30.0
_GOING = ".going"


class GraphCache(BackgroundLoops):
    """Looks after it, as an async context manager."""

    def __init__(
        self,
        server: PodServer,
        models: LoadedModels,
        disk_of: Callable[[Path], tuple[int, int, int]] = shutil.disk_usage,
    ) -> None:
        """Begin; `disk_of` returns how large the disk of a folder is, how much of it is used and how much free."""
        super().__init__(self._follow)
        self._server = server
        self._models = models
        self._disk_of = disk_of
        self._used: list[str] = []
        """Models that have been in, those that were last at the end."""

    async def trim(self) -> None:
        """Make room where the disk is nearly full."""
        if self._server.root is None:
            return
        folder = self._server.root / CACHE.lstrip("/")
        inside = {engine.contract.triton_model for engine in self._models.seen}
        self._used = [*(name for name in self._used if name not in inside), *sorted(inside)]
        lacks, sizes = await asyncio.to_thread(self._look, folder)
        gone = [folder / f"{name}{_GOING}" for name in self._renamed(folder, sizes, lacks)]
        for one in gone:
            await asyncio.to_thread(shutil.rmtree, one, ignore_errors=True)

    async def _follow(self) -> None:
        while True:
            await self.trim()
            await asyncio.sleep(_LOOK_S)

    def _look(self, folder: Path) -> tuple[int, Mapping[str, int]]:
        """Return how many bytes more are to be free, and how many each model has here."""
        try:
            total, _, free = self._disk_of(folder)
            lacks = int(total * LEAST_FREE) - free
            return lacks, {} if lacks <= 0 else {name: _size(folder / name) for name in os.listdir(folder)}
        except OSError:  # nothing was made yet, or the server has ended
            return 0, {}

    def _renamed(self, folder: Path, sizes: Mapping[str, int], lacks: int) -> list[str]:
        """Take enough of it out of use, in one step: no model that comes in meanwhile finds it half gone."""
        inside = {engine.contract.triton_model for engine in self._models.seen}
        places = {name: place for place, name in enumerate(self._used)}
        gone: list[str] = []
        for name in sorted(sizes.keys() - inside, key=lambda one: (places.get(one, -1), one)):
            if lacks <= 0:
                break
            try:
                (folder / name).rename(folder / f"{name}{_GOING}")
            except OSError as error:
                log.warning("What was made of a model is not removed.", extra={"model": name, "error": str(error)})
                continue
            lacks -= sizes[name]
            gone.append(name)
        if gone:
            log.info("The disk is nearly full: what was made of models is removed.", extra={"models": ", ".join(gone)})
        return gone


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
