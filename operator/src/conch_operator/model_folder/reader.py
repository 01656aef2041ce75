"""Reads a model's folder: the facts that its route needs, the tokenizer bundle's digest, or what is wrong with it.

Everything here blocks on the disk; `caching_reader` calls it in a thread. What the facts mean for the route is decided
in `routes`.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from conch_contracts.conditions import Reason
from conch_contracts.dialects.encoder import ONNX_FILES
from conch_contracts.modeldeployment import ModelSpec
from conch_contracts.names import Digest
from conch_contracts.records import ModelKind
from conch_contracts.spec.runtimes import Runtime
from conch_kit.bundles.archive import BundleError, pack
from conch_operator.model_folder.chat_template import read_chat_template, read_templates
from conch_operator.model_folder.encoder_files import check_modules, check_towers, onnx_files, read_encoder
from conch_operator.model_folder.errors import SourceError
from conch_operator.model_folder.generation_config import read_generation
from conch_operator.model_folder.json_files import Json, read_object
from conch_operator.model_folder.speech_files import no_speech, read_speech
from conch_operator.model_folder.vision_files import sees_pictures
from conch_operator.routes.chat_profile import shown_by
from conch_operator.routes.picture_profile import blindness
from conch_operator.state import DesiredModel, SourceFacts, SourceFault

_CONTEXT_KEYS = (
    "max_position_embeddings",
    "seq_length",
    "n_positions",
    "n_ctx",
    "max_seq_len",
    "max_target_positions",
)
_VOCABULARY_KEYS = ("vocab_size", "padded_vocab_size")
Stamps = tuple[tuple[str, tuple[int, int] | None], ...]
"""What files looked like when they were read: their names with modification time and size."""


def read_source(model: DesiredModel, folder: Path | None = None) -> SourceFacts | SourceFault:
    """Return what a model's folder says, or why it cannot be served; by default that of `spec.source.path`."""
    folder = folder or folder_of(model)
    try:
        return _facts(model, folder)
    except SourceError as error:
        return SourceFault(error.reason, str(error), is_of_now=True, folder=folder)


def folder_of(model: DesiredModel) -> Path:
    """Return the model's folder as an absolute path."""
    return (model.base / (model.deployment.spec.source.path or "")).resolve()


@dataclass(frozen=True, slots=True)
class FolderNeeds:
    """What a folder must hold beside a tokenizer."""

    weights: bool
    config: bool
    template: bool = False
    """Whether its chat template is the one that is used, so that it must compile."""
    onnx: bool = False
    """Whether an ONNX file may take the place of the weights."""
    speech: bool = False
    """Whether it must be that of a model of speech."""

    @property
    def marks(self) -> tuple[bool, ...]:
        """Return what tells these needs from others; without speech as before there was any."""
        return (self.weights, self.config, self.template, self.onnx, *((True,) if self.speech else ()))


def needs_of(spec: ModelSpec) -> FolderNeeds:
    """Return what the folder of a model with this spec must hold."""
    on_cpu, speech = spec.engine.cpu is not None, spec.kind is ModelKind.TRANSCRIPTION
    length = spec.max_tokens if spec.kind.encodes else spec.generation.max_length
    return FolderNeeds(
        weights=on_cpu,
        config=on_cpu or speech or length is None,
        template=spec.kind is ModelKind.LLM and spec.tokenizer.chat_template is None,
        onnx=spec.kind.encodes,
        speech=speech,
    )


def read_folder(folder: Path, needs: FolderNeeds) -> SourceFacts:
    """Return what a folder says; raises SourceError."""
    _check_folder(folder)
    if needs.weights and not (needs.onnx and onnx_files(folder)):
        _check_weights(folder, needs)
        if needs.onnx:
            check_modules(folder)
    tokenizer = read_object(folder / "tokenizer.json", Reason.TOKENIZER_INVALID)
    if tokenizer is None:
        message = f"{folder} has no tokenizer.json. Save the model's fast tokenizer there."
        raise SourceError(Reason.FILES_MISSING, message)
    tokens = _tokens(tokenizer, folder)
    templates = read_templates(folder) if needs.template else ()
    config = read_object(folder / "config.json")
    if config is None and needs.config:
        field = "spec.maxTokens" if needs.onnx else "spec.generation.maxLength"
        hint = "" if needs.weights or needs.speech else f" or set {field}"
        raise SourceError(Reason.FILES_MISSING, f"{folder} has no config.json. Put the model's there{hint}.")
    config = config or {}
    if needs.weights and needs.onnx:
        check_towers(folder, config)
    return SourceFacts(
        folder=folder,
        digest=_digest(folder),
        weights=_fingerprint([folder / "config.json", *weight_files(folder)]),
        vocab_size=_integer(config, _VOCABULARY_KEYS) or max(tokens.values()) + 1,
        max_position_embeddings=_integer(config, _CONTEXT_KEYS),
        chat_template=None,
        generation=read_generation(folder, config, tokens),
        chat=shown_by("\n".join(templates)),
        encoder=read_encoder(folder, config),
        speech=read_speech(folder, config) if needs.speech else no_speech(folder, config),
        sees=sees_pictures(config),
        weight_bytes=sum(stamp[1] for _, stamp in stamps_of(weight_files(folder)) if stamp is not None),
    )


def _facts(model: DesiredModel, folder: Path) -> SourceFacts:
    _check_is_local(model)
    facts = read_folder(folder, needs_of(model.deployment.spec))
    fault = blindness(model, facts)
    if fault is not None:
        raise SourceError(fault.reason, fault.message)
    return replace(facts, chat_template=read_chat_template(model))


def _check_is_local(model: DesiredModel) -> None:
    spec = model.deployment.spec
    if spec.source.path is None and spec.source.downloaded is None:
        message = f"Sources of type {spec.source.named} need a cluster; use path, huggingFace or s3 in spec.source."
        raise SourceError(Reason.NOT_HERE, message)
    if spec.engine.runtime not in (Runtime.CPU, Runtime.EXTERNAL):
        message = f"The runtime {spec.engine.runtime} needs a cluster; use cpu or external here."
        raise SourceError(Reason.NOT_HERE, message)
    template = spec.tokenizer.chat_template
    if template is not None and template.config_map_key_ref is not None:
        message = "A chat template in a ConfigMap needs a cluster; use inline or file in spec.tokenizer.chatTemplate."
        raise SourceError(Reason.NOT_HERE, message)


def _check_folder(folder: Path) -> None:
    if not folder.exists():
        raise SourceError(Reason.FOLDER_MISSING, f"The folder {folder} does not exist. Check spec.source.")
    if not folder.is_dir():
        raise SourceError(Reason.FOLDER_MISSING, f"{folder} is not a folder. Check spec.source.")


def _check_weights(folder: Path, needs: FolderNeeds) -> None:
    if not list(folder.glob("*.safetensors")):
        other = f" and no {' or '.join(ONNX_FILES)}" if needs.onnx else ""
        message = f"{folder} has no *.safetensors file with the model's weights{other}."
        raise SourceError(Reason.FILES_MISSING, message)


def _digest(folder: Path) -> Digest:
    try:
        return pack(folder)[0]
    except (BundleError, OSError) as error:
        raise SourceError(Reason.TOKENIZER_INVALID, f"The tokenizer in {folder} cannot be packed: {error}") from error


def _integer(config: Json, keys: tuple[str, ...]) -> int | None:
    """Return the first of these keys that holds a positive number, at the top or in the text model's part."""
    text = config.get("text_config")
    for part in (config, text if isinstance(text, dict) else {}):
        for key in keys:
            value = part.get(key)
            if isinstance(value, int) and value > 0:
                return value
    return None


def _tokens(tokenizer: Json, folder: Path) -> dict[str, int]:
    """Return the vocabulary with its added tokens; a unigram model lists pieces instead of mapping them."""
    model = tokenizer.get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    try:
        match vocabulary:
            case dict():
                tokens = {text: int(number) for text, number in vocabulary.items()}
            case list():
                tokens = {str(piece[0]): index for index, piece in enumerate(vocabulary)}
            case _:
                tokens = {}
        added = tokenizer.get("added_tokens")
        if isinstance(added, list):
            tokens |= {str(token["content"]): int(token["id"]) for token in added}
    except (TypeError, ValueError, LookupError) as error:
        message = f"{folder / 'tokenizer.json'} has a vocabulary that cannot be read: {error}"
        raise SourceError(Reason.TOKENIZER_INVALID, message) from error
    if not tokens:
        raise SourceError(Reason.TOKENIZER_INVALID, f"{folder / 'tokenizer.json'} holds no vocabulary.")
    return tokens


def weight_files(folder: Path) -> list[Path]:
    """Return the files with a folder's weights."""
    return [*sorted(folder.glob("*.safetensors")), *onnx_files(folder)]


def stamps_of(paths: Iterable[Path]) -> Stamps:
    """Return what these files look like now."""
    return tuple((path.name, _stamp(path)) for path in paths)


def _fingerprint(paths: Iterable[Path]) -> str:
    return hashlib.sha256(repr(stamps_of(paths)).encode()).hexdigest()[:16]


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size
