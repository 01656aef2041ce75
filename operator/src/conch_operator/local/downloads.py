"""Models that `conch up` downloads first: `conch-download` as a process for each, into the state folder's cache.

What has been downloaded stays there for the next start; delete its folder to fetch it anew.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from conch_contracts.conditions import Reason
from conch_contracts.names import Digest, ModelId
from conch_operator.download.errors import parse_last_line
from conch_operator.download.file_selection import selection_for
from conch_operator.download.folder_name import folder_name
from conch_operator.download.resumable_download import progress_of
from conch_operator.local.model_folders import ModelFolders
from conch_operator.local.state_folder import StateFolder
from conch_operator.local.supervisor import Command, RestartPolicy, SupervisedProcess, Supervisor
from conch_operator.model_folder.caching_reader import CachingFolderReader
from conch_operator.model_folder.reader import folder_of
from conch_operator.reconcile.calls_in_flight import Background
from conch_operator.state import DesiredModel, EnginePhase, SourceFacts, SourceFault

LONGEST_PAUSE_S = 60.0
"""Between two attempts."""


class Downloads:
    """Keeps a download going for each folder that is wanted and not there."""

    def __init__(
        self, supervisor: Supervisor, state: StateFolder, environment: Mapping[str, str], changed: Callable[[], None]
    ) -> None:
        self._supervisor = supervisor
        self._state = state
        self._environment = environment
        self._changed = changed
        self._running: dict[Path, SupervisedProcess] = {}

    def folder(self, model: DesiredModel) -> Path:
        """Return where a model's files are, or will be."""
        if model.deployment.spec.source.downloaded is None:
            return folder_of(model)
        return self._state.cache / "downloads" / folder_name(model.deployment.spec)

    def ensure(self, models: Sequence[DesiredModel]) -> None:
        """Download what these models lack, and nothing else."""
        lacking = {self.folder(model): model for model in models if self.lacks(model)}
        for folder in [folder for folder in self._running if folder not in lacking]:
            self._running.pop(folder).stop()
        for folder, model in lacking.items():
            if folder not in self._running:
                self._running[folder] = self._start(folder, model)

    def lacks(self, model: DesiredModel) -> bool:
        """Return whether a model's files are still to be downloaded."""
        return model.deployment.spec.source.downloaded is not None and not self.folder(model).is_dir()

    def fault(self, model: DesiredModel) -> SourceFault:
        """Return how far a model's download is, or why it failed last."""
        folder = self.folder(model)
        process = self._running.get(folder)
        if process is not None and process.phase is EnginePhase.EXITED:
            cause = parse_last_line(process.cause)
            reason, message = cause or (Reason.DOWNLOAD_FAILED, f"The download {process.detail}")
            return SourceFault(reason, f"{message} It is tried again.")
        progress = progress_of(folder)
        far = f"on their way: {progress}" if progress is not None else "asked for"
        return SourceFault(Reason.DOWNLOADING, f"The model's files are {far}.")

    def _start(self, folder: Path, model: DesiredModel) -> SupervisedProcess:
        spec = model.deployment.spec
        own = {
            "CONCH_SOURCE": spec.source.model_dump_json(by_alias=True, exclude_none=True),
            "CONCH_FOLDER": str(folder),
            "CONCH_SELECTION": str(selection_for(spec)),
        }
        arguments = (sys.executable, "-m", "conch_operator.download.main")

        async def command() -> Command:
            return Command(arguments, {**self._environment, **own}, self._log(folder))

        policy = RestartPolicy(longest_pause_s=LONGEST_PAUSE_S, grace_s=2.0)
        return self._supervisor.supervise(f"download {folder.name}", command, self._changed, policy)

    def _log(self, folder: Path) -> Path:
        return self._state.log(f"download-{folder.name}")


class DownloadedSources:
    """The `Sources` port on this machine: folders that are here, and folders that are on their way."""

    def __init__(self, downloads: Downloads, background: Background) -> None:
        self._downloads = downloads
        self._folders = ModelFolders(CachingFolderReader(downloads.folder), background)

    async def read_all(self, models: Sequence[DesiredModel]) -> Mapping[ModelId, SourceFacts | SourceFault]:
        """Return what the folders of these models say now, and how far those are that are to come."""
        self._downloads.ensure(models)
        lacking = [model for model in models if self._downloads.lacks(model)]
        found = await self._folders.read_all([model for model in models if model not in lacking])
        return {**found, **{model.id: self._downloads.fault(model) for model in lacking}}

    async def bundle(self, facts: SourceFacts) -> tuple[Digest, bytes]:
        """Return the tokenizer bundle of a folder."""
        return await self._folders.bundle(facts)
