"""Reads the folders of a pool's models, in the server's container: each once for every run of the agent.

Who asks again what is still being read waits for the same answer: while a disk hangs, nothing piles up here.
"""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from conch_contracts.conditions import Reason
from conch_contracts.names import Digest
from conch_kit.bundles.archive import BundleError, pack
from conch_kit.shared_calls import SharedCalls
from conch_operator.agent.folder_reporter import FolderReporter
from conch_operator.agent.messages import FaultReport, SourceReport
from conch_operator.agent.pod_server import PodServer
from conch_operator.agent.pool_messages import FolderQuestion
from conch_operator.agent.server_files import link_out
from conch_operator.model_folder.reader import FolderNeeds

CLAIMS = "/conch/claims"
"""Below it the server has each claim of the pool, under its name."""
_ALONE_S = 10.0
"""How long one folder is read alone: a disk that hangs in the middle holds up the others no longer."""
MOST_KNOWN = 2000
"""So many folders are remembered that are right, those that were read last: more than the models of a pool."""
_NO_SERVER = "The server of the EnginePool does not run yet, in whose container the folder is."
_LEADS_OUT = (
    "{} is or follows a link that is absolute or climbs above the root, so the agent of the EnginePool would read "
    "another file than the server. Make it relative, or put a copy there."
)
T = TypeVar("T")


class PoolFolders:
    """Reports on folders, one after the other: what is read of one takes memory; but one claim waits for no other."""

    def __init__(self, server: PodServer) -> None:
        self._server = server
        self._known: dict[FolderQuestion, SourceReport] = {}
        self._reports: SharedCalls[FolderQuestion, SourceReport] = SharedCalls()
        self._bundles: SharedCalls[FolderQuestion, tuple[Digest, bytes]] = SharedCalls()
        self._turns: dict[str, asyncio.Lock] = {}
        self._memory = asyncio.Semaphore(1)

    async def report(self, asked: FolderQuestion) -> SourceReport:
        """Return what a folder says; one that is right is read once."""
        return await self._reports.run(asked, lambda: self._report(asked))

    async def bundle(self, asked: FolderQuestion) -> tuple[Digest, bytes]:
        """Return the tokenizer bundle of a folder; raises BundleError."""
        return await self._bundles.run(asked, lambda: self._bundle(asked))

    async def _report(self, asked: FolderQuestion) -> SourceReport:
        async with self._turn_of(asked):
            if (known := self._known.get(asked)) is not None:
                return known
            if (root := self._server.root) is None:
                return SourceReport(fault=FaultReport(reason=Reason.WAITING, message=_NO_SERVER))
            if (link := await asyncio.to_thread(link_out, root, asked.folder)) is not None:
                fault = FaultReport(reason=Reason.FILES_INVALID, message=_LEADS_OUT.format(link))
                return SourceReport(fault=fault)
            needs = FolderNeeds(weights=asked.weights, config=asked.config, onnx=asked.onnx)
            reporter = FolderReporter(_folder(root, asked), asked.folder, needs)
            report = await self._alone(reporter.report)
            if report.facts is not None:
                self._known[asked] = report
            if len(self._known) > MOST_KNOWN:
                del self._known[next(iter(self._known))]
            return report

    async def _bundle(self, asked: FolderQuestion) -> tuple[Digest, bytes]:
        async with self._turn_of(asked):
            if (root := self._server.root) is None:
                raise BundleError(_NO_SERVER)
            if (link := await asyncio.to_thread(link_out, root, asked.folder)) is not None:
                raise BundleError(_LEADS_OUT.format(link))
            return await self._alone(lambda: asyncio.to_thread(pack, _folder(root, asked)))

    def _turn_of(self, asked: FolderQuestion) -> asyncio.Lock:
        """Return who may read what lies where this folder does: on one claim, or in the image."""
        below, _, path = asked.folder.partition(f"{CLAIMS}/")
        return self._turns.setdefault("" if below else path.partition("/")[0], asyncio.Lock())

    async def _alone(self, read: Callable[[], Coroutine[Any, Any, T]]) -> T:
        async with self._memory:
            reading = asyncio.create_task(read())
            await asyncio.wait((reading,), timeout=_ALONE_S)
        return await reading


def _folder(root: Path, asked: FolderQuestion) -> Path:
    return root / asked.folder.lstrip("/")
