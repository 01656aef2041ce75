"""API keys: who may use the public port.

Keys come from a file, one per line, as `key`, `name:key` or `name key`; `#` begins a comment. The file is read again
when it changes. Only hashes are kept. Without a file every request is allowed, and the log says so once.
"""

import asyncio
import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from conch_kit.errors import Unauthorized
from conch_kit.settings import SettingsError

log = logging.getLogger(__name__)

OPEN_PATHS = frozenset({"/", "/health", "/health/ready", "/ping"})
KEY_HEADERS = (b"authorization", b"x-api-key")
"""Where a key may stand: as OpenAI's clients send it, and as some of Anthropic's do."""
MAX_HEADER_BYTES = 4096


@dataclass(frozen=True, slots=True)
class KeyTable:
    """The keys of one version of the file: SHA-256 digest to name."""

    names: Mapping[bytes, str]

    def name_of(self, key: bytes) -> str | None:
        """Return the name of a key, or None when it is not in the table."""
        # The lookup sees a hash only, so its timing tells nothing about a key that is nearly right.
        return self.names.get(hashlib.sha256(key).digest())


def parse_keys(text: str) -> KeyTable:
    """Return the keys in the text of a key file."""
    names: dict[bytes, str] = {}
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        first, *rest = line.split(None, 1)
        if rest:
            name, key = first, rest[0]
        elif ":" in line:
            name, _, key = line.partition(":")
        else:
            name, key = f"key-{number}", line
        names[hashlib.sha256(key.strip().encode()).digest()] = name.rstrip(":")
    return KeyTable(names)


class ApiKeys:
    """Decides whether a request may pass; follows the key file."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._table = KeyTable({})
        self._version: tuple[int, int] | None = None

    async def load(self) -> None:
        """Read the file for the first time; raises SettingsError when that fails."""
        if self._path is None:
            log.warning("No file of API keys is set: every request is allowed.")
            return
        try:
            await self._reread(self._path)
        except OSError as exc:
            raise SettingsError(f"Expected a readable file of API keys at {self._path}: {exc.strerror}.") from exc

    async def follow(self, *, interval_s: float = 1.0) -> None:
        """Read the file again whenever it changes, until cancelled; an unreadable file leaves the keys as they are."""
        failing = False
        while self._path is not None:
            await asyncio.sleep(interval_s)
            try:
                await self._reread(self._path)
                failing = False
            except OSError as exc:
                if not failing:
                    log.warning("The file of API keys cannot be read; its last keys stay.", extra={"reason": str(exc)})
                failing = True

    def check(self, path: str, headers: Mapping[bytes, bytes], *, repeated: bool) -> str | None:
        """Return the name of the key that the request carries; raises Unauthorized.

        `repeated` says that there are several such headers: the key is ambiguous then, and refused.
        """
        if self._path is None or path in OPEN_PATHS:
            return None
        key = _key(headers)
        if key and not repeated:
            name = self._table.name_of(key)
            if name is not None:
                return name
        raise Unauthorized("Missing or incorrect API key.", code="invalid_api_key")

    async def _reread(self, path: Path) -> None:
        version, text = await asyncio.to_thread(_read_if_changed, path, self._version)
        if text is None:
            return
        self._table, self._version = parse_keys(text), version
        log.info("API keys read.", extra={"keys": len(self._table.names)})


def owner_of(key_name: str | None, headers: Mapping[bytes, bytes]) -> str:
    """Return whose things a request may see: those of its key, or all when no keys are in use."""
    return "all" if key_name is None else hashlib.sha256(_key(headers)).hexdigest()[:32]


def _key(headers: Mapping[bytes, bytes]) -> bytes:
    """Return the key, or nothing; the header that most clients send counts where there are both."""
    bearer, plain = map(headers.get, KEY_HEADERS)
    if bearer is None:
        return plain if plain is not None and len(plain) <= MAX_HEADER_BYTES else b""
    scheme, _, key = bearer.partition(b" ")
    return key if scheme.lower() == b"bearer" and len(bearer) <= MAX_HEADER_BYTES else b""


def _read_if_changed(path: Path, known: tuple[int, int] | None) -> tuple[tuple[int, int], str | None]:
    stat = path.stat()
    version = (stat.st_mtime_ns, stat.st_ino)
    return (version, None) if version == known else (version, path.read_text("utf-8", errors="replace"))
