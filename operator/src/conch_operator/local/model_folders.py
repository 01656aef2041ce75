"""The folders of all models on this machine: several are read at a time, so one on a slow disk holds up no other.

As many as `AT_ONCE` that hang for good hold up the rest.
"""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial

from conch_contracts.names import Digest, ModelId
from conch_kit.bundles.archive import pack
from conch_operator.model_folder.caching_reader import CachingFolderReader
from conch_operator.reconcile.calls_in_flight import AWAITED, Background, CallsInFlight
from conch_operator.state import DesiredModel, SourceFacts, SourceFault

AT_ONCE = 4
"""Folders that are read at a time: fewer than the event loop has threads, for other work needs some too."""


class ModelFolders:
    """Reads folders side by side; one on a disk that hangs is left out until it has been read."""

    def __init__(self, reader: CachingFolderReader, background: Background = AWAITED) -> None:
        self._reader = reader
        self._reading: CallsInFlight[ModelId, SourceFacts | SourceFault] = CallsInFlight(background, AT_ONCE)

    async def read_all(self, models: Sequence[DesiredModel]) -> Mapping[ModelId, SourceFacts | SourceFault]:
        """Return what the folders of these models say; of one that is being read, what it said before."""
        await self._reading.run({model.id: partial(asyncio.to_thread, self._reader.read, model) for model in models})
        said = {model.id: self._reader.last(model) for model in models}
        return {model: found for model, found in said.items() if found is not None}

    async def bundle(self, facts: SourceFacts) -> tuple[Digest, bytes]:
        """Return the tokenizer bundle of a folder; of one that has changed meanwhile, the new one."""
        return await asyncio.to_thread(pack, facts.folder)
