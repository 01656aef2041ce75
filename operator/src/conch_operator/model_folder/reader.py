"""Reads a model's folder: the facts that its route needs, the tokenizer bundle's digest, or what is wrong with it.

Everything here blocks on the disk, so the loop calls it in a thread.
What the facts mean for the route is decided in `routes`.
"""

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from conch_contracts.conditions import Reason
from conch_contracts.dialects.encoder import ONNX_FILES
from conch_contracts.modeldeployment import ModelSpec
from conch_contracts.names import Digest, ModelId
from conch_contracts.records import ModelKind
from conch_contracts.spec.runtimes import Runtime
from conch_kit.bundles.archive import TOKENIZER_FILES, BundleError, pack
from conch_operator.model_folder.encoder_files import SENTENCE_FILES, onnx_files, read_encoder
from conch_operator.model_folder.errors import SourceError, TemplateUnchecked
from conch_operator.model_folder.generation_config import read_generation
from conch_operator.model_folder.json_files import Json, read_object
from conch_operator.model_folder.template_check import fault_in
from conch_operator.routes.chat_profile import shown_by
from conch_operator.state import DesiredModel, SourceFacts, SourceFault

_CONTEXT_KEYS = ("max_position_embeddings", "seq_length", "n_positions", "n_ctx", "max_seq_len")
_VOCABULARY_KEYS = ("vocab_size", "padded_vocab_size")
Fingerprint = tuple[object, ...]
FolderOf = Callable[[DesiredModel], Path]


@dataclass(frozen=True, slots=True)
class _Read:
    fingerprint: Fingerprint
    result: SourceFacts | SourceFault
    next: Fingerprint | None = None
    """What the files looked like when they were last found changed: taken up once they look so twice."""


class SourceReader:
    """Reads folders, and reads one again only when its files have changed."""

    def __init__(self, folder: FolderOf | None = None) -> None:
        """Find a model's folder by this function; by default it is what `spec.source.path` names."""
        self._folder = folder or folder_of
        self._known: dict[ModelId, _Read] = {}

    async def read_all(self, models: Sequence[DesiredModel]) -> dict[ModelId, SourceFacts | SourceFault]:
        """Return what the folders of these models say now."""
        return await asyncio.to_thread(lambda: {model.id: self.read(model) for model in models})

    async def bundle(self, facts: SourceFacts) -> tuple[Digest, bytes]:
        """Return the tokenizer bundle of a folder; of one that has changed meanwhile, the new one."""
        return await asyncio.to_thread(pack, facts.folder)

    def read(self, model: DesiredModel) -> SourceFacts | SourceFault:
        """Return what a model's folder says now; while files are being copied, what it said before."""
        folder = self._folder(model)
        fingerprint = (model.deployment.spec, *_fingerprint(model, folder))
        known = self._known.get(model.id)
        if (
            known is None
            or _may_pass(known.result)
            or fingerprint == known.next
            or model.deployment.spec != known.fingerprint[0]
        ):
            known = _Read(fingerprint, read_source(model, folder))
        elif fingerprint != known.fingerprint:
            known = replace(known, next=fingerprint)
        self._known[model.id] = known
        return known.result


def read_source(model: DesiredModel, folder: Path | None = None) -> SourceFacts | SourceFault:
    """Return what a model's folder says, or why it cannot be served; by default that of `spec.source.path`."""
    try:
        return _facts(model, folder or folder_of(model))
    except SourceError as error:
        return SourceFault(error.reason, str(error))


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


def needs_of(spec: ModelSpec) -> FolderNeeds:
    """Return what the folder of a model with this spec must hold."""
    on_cpu, is_encoder = spec.engine.cpu is not None, spec.kind is not ModelKind.LLM
    length = spec.max_tokens if is_encoder else spec.generation.max_length
    return FolderNeeds(
        weights=on_cpu,
        config=on_cpu or length is None,
        template=not is_encoder and spec.tokenizer.chat_template is None,
        onnx=is_encoder,
    )


def read_folder(folder: Path, needs: FolderNeeds) -> SourceFacts:
    """Return what a folder says; raises SourceError."""
    _check_folder(folder)
    if needs.weights and not (needs.onnx and onnx_files(folder)):
        _check_weights(folder, needs)
    tokenizer = read_object(folder / "tokenizer.json", Reason.TOKENIZER_INVALID)
    if tokenizer is None:
        message = f"{folder} has no tokenizer.json. Save the model's fast tokenizer there."
        raise SourceError(Reason.FILES_MISSING, message)
    tokens = _tokens(tokenizer, folder)
    templates = _templates(folder) if needs.template else ()
    config = read_object(folder / "config.json")
    if config is None and needs.config:
        field = "spec.maxTokens" if needs.onnx else "spec.generation.maxLength"
        hint = "" if needs.weights else f" or set {field}"
        raise SourceError(Reason.FILES_MISSING, f"{folder} has no config.json. Put the model's there{hint}.")
    config = config or {}
    return SourceFacts(
        folder=folder,
        digest=_digest(folder),
        weights=hashlib.sha256(repr(_stamps([folder / "config.json", *_weights(folder)])).encode()).hexdigest()[:16],
        vocab_size=_integer(config, _VOCABULARY_KEYS) or max(tokens.values()) + 1,
        max_position_embeddings=_integer(config, _CONTEXT_KEYS),
        chat_template=None,
        generation=read_generation(folder, config, tokens),
        chat=shown_by("\n".join(templates)),
        encoder=read_encoder(folder, config),
    )


def template_fault(template: str, place: str) -> SourceFault | None:
    """Return what is wrong with a chat template; None when it compiles. Blocks for a moment the first time."""
    try:
        why = fault_in(template)
    except TemplateUnchecked as error:
        message = f"The chat template in {place} is not checked yet: {error}. It is tried again."
        return SourceFault(Reason.TEMPLATE_UNCHECKED, message)
    if why is None:
        return None
    return SourceFault(Reason.TEMPLATE_INVALID, f"The chat template in {place} does not compile: {why}. Repair it.")


def _may_pass(result: SourceFacts | SourceFault) -> bool:
    return isinstance(result, SourceFault) and result.reason is Reason.TEMPLATE_UNCHECKED


def _facts(model: DesiredModel, folder: Path) -> SourceFacts:
    _check_is_local(model)
    facts = read_folder(folder, needs_of(model.deployment.spec))
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


def read_chat_template(model: DesiredModel) -> str | None:
    """Return the template that a model sets instead of its folder's; raises SourceError."""
    override = model.deployment.spec.tokenizer.chat_template
    if override is None:
        return None
    if override.file is None:
        return _compiling(override.inline or "", "spec.tokenizer.chatTemplate.inline")
    path = model.base / override.file
    try:
        return _compiling(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        message = f"The chat template {path} cannot be read: {error}. Check spec.tokenizer.chatTemplate.file."
        raise SourceError(Reason.TOKENIZER_INVALID, message) from error


def _compiling(template: str, place: str) -> str:
    fault = template_fault(template, place)
    if fault is not None:
        raise SourceError(fault.reason, fault.message)
    return template


def _templates(folder: Path) -> tuple[str, ...]:
    """Return the folder's chat templates, which compile: one in a file, or those of its settings."""
    file = folder / "chat_template.jinja"
    if file.is_file():
        try:
            return (_compiling(file.read_text(encoding="utf-8"), str(file)),)
        except (OSError, UnicodeDecodeError) as error:
            raise SourceError(Reason.TEMPLATE_INVALID, f"The chat template {file} cannot be read: {error}") from error
    settings = folder / "tokenizer_config.json"
    found = (read_object(settings, Reason.TOKENIZER_INVALID) or {}).get("chat_template")
    listed = found if isinstance(found, list) else [found]
    texts = [one.get("template") if isinstance(one, dict) else one for one in listed]
    return tuple(_compiling(text, f"chat_template of {settings}") for text in texts if isinstance(text, str))


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


def _fingerprint(model: DesiredModel, folder: Path) -> Fingerprint:
    override = model.deployment.spec.tokenizer.chat_template
    paths = [folder, *(folder / name for name in (*TOKENIZER_FILES, *SENTENCE_FILES)), *_weights(folder)]
    if override is not None and override.file is not None:
        paths.append(model.base / override.file)
    return _stamps(paths)


def _weights(folder: Path) -> list[Path]:
    return [*sorted(folder.glob("*.safetensors")), *onnx_files(folder)]


def _stamps(paths: Iterable[Path]) -> Fingerprint:
    return tuple((path.name, _stamp(path)) for path in paths)


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size
