"""Writes the list of models into the registry; the operator is the only one who does."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from conch_contracts.names import CHANGED_KEY, CHANGES_CHANNEL, GATEWAYS_KEY, META_KEY, ROUTES_KEY, ModelId, engines_key
from conch_contracts.records import Engine, GatewayBeat, Route
from conch_kit.redis.client import RedisClient
from conch_kit.redis.connection import Argument
from conch_kit.redis.errors import RegistryError, RegistryUnavailable
from conch_kit.registry.scripts import NOTED_REVISIONS, PUBLISH
from conch_kit.registry.snapshot import Parser


class Fenced(Exception):
    """A newer operator has written; this one must not write any more."""


@dataclass(frozen=True, slots=True)
class _Written:
    epoch: str
    revision: int


class RegistryWriter:
    """Publishes complete lists. Of two writers only the one with the newer fence gets through."""

    def __init__(self, redis: RedisClient, *, fence: int = 0) -> None:
        self._redis = redis
        self._fence = fence
        self._written: _Written | None = None

    async def publish(self, models: Mapping[ModelId, tuple[Route, tuple[Engine, ...]]]) -> int:
        """Make the registry hold exactly these models and return its revision, which grows only with a change.

        Raises Fenced, RegistryUnavailable.
        """
        least = 0 if self._written is None else self._written.revision
        keys = [META_KEY, ROUTES_KEY, CHANGED_KEY]
        header: list[Argument] = [
            engines_key(ModelId("")),
            CHANGES_CHANNEL,
            self._fence,
            least,
            secrets.token_hex(8),
            NOTED_REVISIONS,
            len(models),
        ]
        try:
            reply = await self._redis.execute("EVAL", PUBLISH, len(keys), *keys, *header, *_arguments(models))
        except RegistryError as error:
            if "FENCED" in str(error):
                raise Fenced(str(error)) from error
            raise RegistryUnavailable(str(error)) from error
        epoch, revision = reply
        self._written = _Written(epoch.decode(), int(revision))
        return self._written.revision

    async def is_current(self) -> bool:
        """Return whether Redis still holds a list at least as new as the last one published.

        False means that Redis was emptied or set back: publish again. Raises RegistryUnavailable.
        """
        if self._written is None:
            return False
        asked = [("HMGET", META_KEY, "epoch", "revision", "models"), ("HLEN", ROUTES_KEY)]
        match await self._redis.pipeline(asked):
            case [[bytes(epoch), bytes(revision), bytes(models)], int(held)] if revision.isdigit():
                same = epoch.decode(errors="replace") == self._written.epoch
                return same and int(revision) >= self._written.revision and models == str(held).encode()
            case _:
                return False

    async def gateways(self) -> tuple[GatewayBeat, ...]:
        """Return each gateway's last beat; whether it still lives is for the caller to watch by its sequence."""
        try:
            raw = await self._redis.execute("HVALS", GATEWAYS_KEY)
        except RegistryError as error:
            raise RegistryUnavailable(str(error)) from error
        parser = Parser()
        beats = (parser.record(GatewayBeat, value) for value in raw)
        return tuple(beat for beat in beats if beat is not None)


def _arguments(models: Mapping[ModelId, tuple[Route, tuple[Engine, ...]]]) -> list[Argument]:
    found: list[Argument] = []
    for model, (route, engines) in sorted(models.items()):
        by_address = {engine.grpc: engine for engine in engines}
        found += [model, route.model_dump_json(), len(by_address)]
        for address, engine in sorted(by_address.items()):
            found += [address, engine.model_dump_json()]
    return found
