"""Packs and unpacks tokenizer bundles: a zstd-compressed tar of a model's tokenizer files.

The same files always give the same bytes, so the SHA-256 of a bundle names its content and proves it.
"""

import hashlib
import io
import os
import shutil
import tarfile
import tempfile
from pathlib import Path

import zstandard

from conch_contracts.names import MAX_BUNDLE_BYTES, Digest

PICTURE_FILES = ("chat_template.json", "preprocessor_config.json", "processor_config.json")
"""Only of models that see pictures: with others they are of no use, and would change the names of their bundles."""
TOKENIZER_FILES = (
    *PICTURE_FILES,
    "added_tokens.json",
    "chat_template.jinja",
    "config.json",
    "generation_config.json",
    "merges.txt",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
    "vocab.txt",
)
MAX_UNPACKED_BYTES = 512 * 1024 * 1024
_LEVEL = 9
_MODE = 0o644


class BundleError(Exception):
    """A bundle that cannot be made or must not be trusted; the message says why."""


def digest(data: bytes) -> Digest:
    """Return the name of a bundle with this content."""
    return Digest(hashlib.sha256(data).hexdigest())


def pack(folder: Path) -> tuple[Digest, bytes]:
    """Return the bundle of a model folder and its digest; raises BundleError when there is nothing to pack."""
    left_out = () if has_vision_config(folder) else PICTURE_FILES
    names = sorted(name for name in TOKENIZER_FILES if name not in left_out and (folder / name).is_file())
    if not names:
        raise BundleError(f"{folder} holds no tokenizer files (looked for {', '.join(TOKENIZER_FILES)})")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in names:
            content = (folder / name).read_bytes()
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            entry.mode = _MODE
            archive.addfile(entry, io.BytesIO(content))
    data = zstandard.ZstdCompressor(level=_LEVEL).compress(buffer.getvalue())
    if len(data) > MAX_BUNDLE_BYTES:
        raise BundleError(f"the bundle of {folder} has {len(data)} bytes, at most {MAX_BUNDLE_BYTES} are allowed")
    return digest(data), data


def has_vision_config(folder: Path) -> bool:
    """Tell whether a model has a part that sees: transformers writes its settings under this name for all of them."""
    config = folder / "config.json"
    return config.is_file() and b'"vision_config"' in config.read_bytes()


def unpack(data: bytes, folder: Path, *, max_bytes: int = MAX_UNPACKED_BYTES) -> None:
    """Make the folder with a bundle's files, all of them or none; raises BundleError. A folder already there stays."""
    if folder.exists():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        _extract(_decompress(data, max_bytes), draft)
        _move(draft, folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _move(draft: Path, folder: Path) -> None:
    try:
        os.rename(draft, folder)
    except OSError:
        if not folder.is_dir():  # else another process was faster with the same content
            raise


def _decompress(data: bytes, max_bytes: int) -> bytes:
    try:
        with zstandard.ZstdDecompressor().stream_reader(data) as reader:
            content = reader.read(max_bytes + 1)
    except zstandard.ZstdError as error:
        raise BundleError(f"the bundle is not zstd data: {error}") from error
    if len(content) > max_bytes:
        raise BundleError(f"the bundle unpacks to more than {max_bytes} bytes")
    return content


def _extract(content: bytes, folder: Path) -> None:
    try:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
            for entry in archive:
                if entry.name not in TOKENIZER_FILES or not entry.isreg():
                    raise BundleError(f"the bundle holds {entry.name!r}, which is no tokenizer file")
                source = archive.extractfile(entry)
                if source is None or (folder / entry.name).exists():
                    raise BundleError(f"the bundle holds {entry.name!r} twice or without content")
                (folder / entry.name).write_bytes(source.read())
    except tarfile.TarError as error:
        raise BundleError(f"the bundle is no tar archive: {error}") from error
