"""Pure: which files of a source a model needs. Repositories often hold the same weights in several formats."""

from collections.abc import Sequence
from enum import StrEnum

from conch_contracts.conditions import Reason
from conch_contracts.dialects.encoder import ONNX_FILES
from conch_contracts.modeldeployment import ModelSpec
from conch_kit.bundles.archive import TOKENIZER_FILES
from conch_operator.download.errors import DownloadError
from conch_operator.download.remote_source import RemoteFile
from conch_operator.model_folder.encoder_files import SENTENCE_FILES
from conch_operator.model_folder.vision_files import PICTURE_SETTINGS

_OTHER_WEIGHTS = (".bin", ".pt", ".pth", ".h5", ".msgpack", ".gguf", ".onnx", ".onnx_data", ".ot", ".tflite")


class Selection(StrEnum):
    """What of a source is downloaded."""

    TOKENIZER = "tokenizer"
    """The small files that the tokenizer bundle is made of."""
    ENCODER = "encoder"
    """The usual ONNX file where there is one, else safetensors, and everything but weights. Of a model that sees
    safetensors where there are some: the cpu runtime computes no ONNX file of such a one."""
    SAFETENSORS = "safetensors"
    """Everything but weights in other formats."""
    WEIGHTS = "weights"
    """The same where there are safetensors, else everything."""
    ALL = "all"


def selection_for(spec: ModelSpec) -> Selection:
    """Return what a model's engines need."""
    if spec.engine.external is not None:
        return Selection.TOKENIZER
    if spec.engine.cpu is not None:
        return Selection.ENCODER if spec.kind.encodes else Selection.SAFETENSORS
    return Selection.WEIGHTS if spec.engine.loads_a_hub_folder else Selection.ALL


def _weighs(files: Sequence[RemoteFile]) -> bool:
    """Return whether there are weights among the files that the cpu runtime takes."""
    return any(file.path.endswith((".safetensors", *ONNX_FILES)) for file in files)


def select(files: Sequence[RemoteFile], selection: Selection, source: str) -> list[RemoteFile]:
    """Return the files to download, the smallest first; raises DownloadError when there is nothing to serve."""
    visible = [file for file in files if not any(part.startswith(".") for part in file.path.split("/"))]
    has_safetensors = any(file.path.endswith(".safetensors") for file in visible)
    sees = any(file.path in PICTURE_SETTINGS for file in visible)
    onnx = [] if sees and has_safetensors else [file for file in visible if file.path.startswith(ONNX_FILES)]
    if selection is Selection.TOKENIZER:
        found = [file for file in visible if file.path in (*TOKENIZER_FILES, *SENTENCE_FILES)]
    elif selection is Selection.ENCODER and onnx:
        found = [file for file in visible if not file.path.endswith((*_OTHER_WEIGHTS, ".safetensors"))] + onnx
    elif selection is Selection.ALL or (selection is Selection.WEIGHTS and not has_safetensors):
        found = visible
    else:
        found = [file for file in visible if not file.path.endswith(_OTHER_WEIGHTS)]
    if not found or (selection in (Selection.SAFETENSORS, Selection.ENCODER) and not _weighs(found)):
        what = "tokenizer files" if selection is Selection.TOKENIZER else "*.safetensors files"
        what = "files" if selection in (Selection.ALL, Selection.WEIGHTS) else what
        raise DownloadError(Reason.SOURCE_NOT_FOUND, f"{source} holds no {what}. Check spec.source.")
    return sorted(found, key=lambda file: (file.size, file.path))
