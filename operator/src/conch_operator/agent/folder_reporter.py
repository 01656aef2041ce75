"""Reports what the model's folder says: read when it is first asked for, and again while something is wrong with it.

Who asks again what is still being read waits for the same answer: while a disk hangs, nothing piles up here.
"""

import asyncio
from pathlib import Path

from conch_contracts.conditions import Reason
from conch_contracts.names import Digest
from conch_kit.bundles.archive import pack
from conch_kit.shared_calls import SharedCalls
from conch_operator.agent.messages import FaultReport, FolderReport, SourceReport
from conch_operator.download.resumable_download import DownloadProgress, progress_of
from conch_operator.model_folder.errors import SourceError
from conch_operator.model_folder.reader import FolderNeeds, read_folder


class FolderReporter:
    """Reports on one folder."""

    def __init__(self, path: Path, shown: str, needs: FolderNeeds, *, downloads: bool = False) -> None:
        """Read this folder; with `downloads` something else is about to bring it here."""
        self._path = path
        self._shown = shown
        self._needs = needs
        self._downloads = downloads
        self._progress: DownloadProgress | None = None
        self._facts: FolderReport | None = None
        self._reports: SharedCalls[Path, SourceReport] = SharedCalls()
        self._bundles: SharedCalls[Path, tuple[Digest, bytes]] = SharedCalls()

    async def report(self) -> SourceReport:
        """Return what the folder says."""
        return await self._reports.run(self._path, self._report)

    async def bundle(self) -> tuple[Digest, bytes]:
        """Return the tokenizer bundle; raises BundleError."""
        return await self._bundles.run(self._path, lambda: asyncio.to_thread(pack, self._path))

    async def _report(self) -> SourceReport:
        if self._facts is not None:
            return SourceReport(facts=self._facts)
        report = await asyncio.to_thread(self._read)
        self._facts = report.facts
        return report

    def _read(self) -> SourceReport:
        if self._downloads and not self._path.is_dir():
            return SourceReport(fault=self._on_the_way())
        try:
            facts = read_folder(self._path, self._needs)
        except SourceError as error:
            message = str(error).replace(str(self._path), self._shown)
            return SourceReport(fault=FaultReport(reason=error.reason, message=message))
        return SourceReport(
            facts=FolderReport(
                folder=self._shown,
                digest=facts.digest,
                weights=facts.weights,
                vocab_size=facts.vocab_size,
                max_position_embeddings=facts.max_position_embeddings,
                generation=facts.generation,
                chat=facts.chat,
                encoder=facts.encoder,
                speech=facts.speech,
                sees=facts.sees,
                weight_bytes=facts.weight_bytes,
            )
        )

    def _on_the_way(self) -> FaultReport:
        """Return how far the download is; one that stands still is awaited: only its last line may say why."""
        before, self._progress = self._progress, progress_of(self._path)
        if self._progress is None or self._progress == before:
            return FaultReport(reason=Reason.WAITING, message="The model's files are awaited.")
        return FaultReport(reason=Reason.DOWNLOADING, message=f"The model's files are on their way: {self._progress}.")
