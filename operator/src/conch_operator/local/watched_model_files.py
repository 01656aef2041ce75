"""What a laptop's user wants: the models of some files, read again when one of them changes.

At the start a bad file is an error. Later a bad edit is reported, and what was wanted before goes on.
"""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from watchfiles import Change, awatch

from conch_operator.local.state_folder import StateFolder
from conch_operator.manifests.yaml_files import ParsedManifests, immutable_changes
from conch_operator.state import Desired, DesiredModel

Loader = Callable[[], ParsedManifests]
"""Reads all files again; raises InvalidFiles."""


class InvalidFiles(Exception):
    """Files that cannot be obeyed; `sentences` say why, one per fault."""

    def __init__(self, sentences: tuple[str, ...]) -> None:
        super().__init__("\n".join(sentences))
        self.sentences = sentences


class DesiredModels:
    """Holds the last good list of models, and the pools that they share."""

    def __init__(self, load: Loader, state: StateFolder) -> None:
        self._load = load
        self._state = state
        self._last = ParsedManifests()
        self.current = Desired()

    def reload(self) -> None:
        """Read the files again; raises InvalidFiles and keeps the last good list."""
        found = self._load()
        manifests = found.manifests
        if faults := immutable_changes(self._last.manifests, manifests):
            raise InvalidFiles(faults)
        now = int(time.time())
        times = self._state.first_seen({manifest.deployment.model_id: now for manifest in manifests})
        self._last = found
        self.current = Desired(
            tuple(DesiredModel(m.deployment, m.file.resolve().parent, times[m.deployment.model_id]) for m in manifests),
            pools={one.pool.pool_id: one.pool.spec for one in found.pools},
        )

    async def follow(self, files: tuple[Path, ...], on_reading: Callable[[tuple[str, ...]], None]) -> None:
        """Reload on every change, for ever; `on_reading` gets the faults of each reading, none when it was good."""
        wanted = {file.resolve() for file in files}

        def concerns_us(_change: Change, path: str) -> bool:
            return Path(path).resolve() in wanted

        folders = {file.parent for file in wanted}  # Editors replace files, so their folders are watched.
        async for _ in awatch(*folders, watch_filter=concerns_us, recursive=False, debounce=200, step=50):
            try:
                await asyncio.to_thread(self.reload)
            except InvalidFiles as error:
                on_reading(error.sentences)
            else:
                on_reading(())
