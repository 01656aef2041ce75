"""Reads the folders of models, and reads one again only when its files have changed."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from conch_contracts.conditions import Reason
from conch_contracts.modeldeployment import ModelSpec
from conch_contracts.names import ModelId
from conch_kit.bundles.archive import TOKENIZER_FILES
from conch_operator.model_folder.encoder_files import SENTENCE_FILES
from conch_operator.model_folder.reader import folder_of, read_source, stamps_of, weight_files
from conch_operator.state import DesiredModel, SourceFacts, SourceFault

Fingerprint = tuple[object, ...]
FolderOf = Callable[[DesiredModel], Path]


@dataclass(frozen=True, slots=True)
class _Read:
    spec: ModelSpec
    fingerprint: Fingerprint
    result: SourceFacts | SourceFault
    next: Fingerprint | None = None
    """What the files looked like when they were last found changed: taken up once they look so twice."""


class CachingFolderReader:
    """Keeps what each folder said until its files have changed."""

    def __init__(self, folder: FolderOf | None = None) -> None:
        """Find a model's folder by this function; by default it is what `spec.source.path` names."""
        self._folder = folder or folder_of
        self._known: dict[ModelId, _Read] = {}

    def read(self, model: DesiredModel) -> SourceFacts | SourceFault:
        """Return what a model's folder says now; while files are being copied, what it said before."""
        folder = self._folder(model)
        fingerprint = _fingerprint(model, folder)
        known = self._known.get(model.id)
        if known is None or _may_pass(known.result) or fingerprint == known.next or model.deployment.spec != known.spec:
            known = _Read(model.deployment.spec, fingerprint, read_source(model, folder))
        elif fingerprint != known.fingerprint:
            known = replace(known, next=fingerprint)
        self._known[model.id] = known
        return known.result

    def last(self, model: DesiredModel) -> SourceFacts | SourceFault | None:
        """Return what was last read for a model as its spec is now; None where that was not read yet."""
        known = self._known.get(model.id)
        return known.result if known is not None and known.spec == model.deployment.spec else None


def _may_pass(result: SourceFacts | SourceFault) -> bool:
    return isinstance(result, SourceFault) and result.reason is Reason.TEMPLATE_UNCHECKED


def _fingerprint(model: DesiredModel, folder: Path) -> Fingerprint:
    override = model.deployment.spec.tokenizer.chat_template
    paths = [folder, *(folder / name for name in (*TOKENIZER_FILES, *SENTENCE_FILES)), *weight_files(folder)]
    if override is not None and override.file is not None:
        paths.append(model.base / override.file)
    return stamps_of(paths)
