"""Reads the folders of a pool's models, in the server's container: each once for every run of the agent."""

import asyncio

from conch_contracts.conditions import Reason
from conch_contracts.names import Digest
from conch_kit.bundles.archive import BundleError, pack
from conch_operator.agent.folder_reporter import FolderReporter
from conch_operator.agent.messages import FaultReport, SourceReport
from conch_operator.agent.pod_server import PodServer
from conch_operator.agent.pool_messages import FolderQuestion
from conch_operator.model_folder.reader import FolderNeeds

_NO_SERVER = "The server of the EnginePool does not run yet, in whose container the folder is."


class PoolFolders:
    """Reports on folders, one after the other."""

    def __init__(self, server: PodServer) -> None:
        self._server = server
        self._known: dict[FolderQuestion, SourceReport] = {}
        self._reading = asyncio.Lock()

    async def report(self, asked: FolderQuestion) -> SourceReport:
        """Return what a folder says; one that is right is read once."""
        async with self._reading:
            if (known := self._known.get(asked)) is not None:
                return known
            if self._server.root is None:
                return SourceReport(fault=FaultReport(reason=Reason.WAITING, message=_NO_SERVER))
            path = self._server.root / asked.folder.lstrip("/")
            needs = FolderNeeds(weights=asked.weights, config=asked.config, onnx=asked.onnx)
            report = await FolderReporter(path, asked.folder, needs).report()
            if report.facts is not None:
                self._known[asked] = report
            return report

    async def bundle(self, asked: FolderQuestion) -> tuple[Digest, bytes]:
        """Return the tokenizer bundle of a folder; raises BundleError."""
        if self._server.root is None:
            raise BundleError(_NO_SERVER)
        return await asyncio.to_thread(pack, self._server.root / asked.folder.lstrip("/"))
