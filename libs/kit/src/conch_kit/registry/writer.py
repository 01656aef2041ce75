"""Writes the list of models into the registry; the operator is the only one who does."""

import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from conch_contracts.names import CHANGED_KEY, CHANGES_CHANNEL, GATEWAYS_KEY, META_KEY, ROUTES_KEY, ModelId, engines_key
from conch_contracts.records import Engine, GatewayBeat, Route
from conch_kit.redis.client import RedisClient
from conch_kit.redis.connection import Argument
from conch_kit.redis.errors import RegistryError, RegistryUnavailable
from conch_kit.registry.scripts import NOTED_REVISIONS, PUBLISH
from conch_kit.registry.snapshot import UNKNOWN_ROUTE, Parser

FULL_S = 8.0
"""After which a list is sent though it is the one that was sent last: what somebody has damaged is mended by that."""

_RoutedModel = tuple[Route, tuple[Engine, ...]]
_ListedModel = tuple[Route | None, tuple[Engine, ...]]
"""None: it is wanted, and its route is not known."""


class Fenced(Exception):
    """A newer operator has written; this one must not write any more."""


@dataclass(frozen=True, slots=True)
class _Written:
    epoch: str
    revision: int


@dataclass(frozen=True, slots=True)
class _Sent:
    """A model as it was last sent."""

    listed: _ListedModel
    arguments: list[Argument]


class RegistryWriter:
    """Publishes complete lists. Of two writers only the one with the newer fence gets through."""

    def __init__(self, redis: RedisClient, *, fence: int = 0, clock: Callable[[], float] = time.monotonic) -> None:
        self._redis = redis
        self._fence = fence
        self._clock = clock
        self._written: _Written | None = None
        self._sent: dict[ModelId, _Sent] = {}
        self._full_at_s = clock()

    async def publish(
        self, models: Mapping[ModelId, _RoutedModel], unknown: Mapping[ModelId, tuple[Engine, ...]] = {}
    ) -> int:
        """Make the registry hold exactly these models and return its revision, which grows only with a change.

        Of models of which the route is `unknown` a reader keeps the one that it has, and its engines unless some are
        given here. Where the registry is known to hold the list it is left alone, for a while; where it holds the last
        one it is sent what has changed. Raises Fenced, RegistryUnavailable.
        """
        listed: dict[ModelId, _ListedModel] = {model: (None, engines) for model, engines in unknown.items()}
        listed |= models
        sent = {model: self._sending(model, one) for model, one in sorted(listed.items(), key=_id)}
        if self._written is not None and self._clock() < self._full_at_s:
            news = [one.arguments for model, one in sent.items() if self._sent.get(model) is not one]
            news += [[model, "", 0] for model in self._sent.keys() - sent.keys()]
            if not news and await self.is_current():
                return self._written.revision
            if news and (revision := await self._send(news, len(sent), since=self._written)) is not None:
                self._sent = sent
                return revision
        revision = await self._send([one.arguments for one in sent.values()], len(sent), since=None)
        assert revision is not None  # only changes may be those of another list
        self._sent, self._full_at_s = sent, self._clock() + FULL_S
        return revision

    async def _send(self, sent: Iterable[list[Argument]], count: int, *, since: _Written | None) -> int | None:
        """Send all of `count` models, or what has changed of the list `since`; None where that is not there."""
        least = 0 if self._written is None else self._written.revision
        keys = [META_KEY, ROUTES_KEY, CHANGED_KEY]
        header: list[Argument] = [
            engines_key(ModelId("")),
            CHANGES_CHANNEL,
            self._fence,
            least,
            secrets.token_hex(8),
            NOTED_REVISIONS,
            count,
            *(("", "") if since is None else (since.epoch, since.revision)),
        ]
        arguments = [argument for one in sent for argument in one]
        try:
            reply = await self._redis.execute("EVAL", PUBLISH, len(keys), *keys, *header, *arguments)
        except RegistryError as error:
            if "FENCED" in str(error):
                raise Fenced(str(error)) from error
            raise RegistryUnavailable(str(error)) from error
        if not reply:
            return None
        epoch, revision = reply
        self._written = _Written(epoch.decode(), int(revision))
        return self._written.revision

    async def is_current(self) -> bool:
        """Return whether Redis still holds a list at least as new as the last one published.

        False means that Redis was emptied or set back, or that another operator has written: publish again. Raises
        RegistryUnavailable.
        """
        if self._written is None:
            return False
        asked = [("HMGET", META_KEY, "epoch", "revision", "models", "fence"), ("HLEN", ROUTES_KEY)]
        match await self._redis.pipeline(asked):
            case [[bytes(epoch), bytes(revision), bytes(models), bytes(fence)], int(held)] if revision.isdigit():
                same = epoch.decode(errors="replace") == self._written.epoch and fence == str(self._fence).encode()
                return same and int(revision) >= self._written.revision and models == str(held).encode()
            case _:
                return False

    def _sending(self, model: ModelId, listed: _ListedModel) -> _Sent:
        """Return a model as it is to be sent; the last one where it is the same."""
        sent, (route, engines) = self._sent.get(model), listed
        if sent is not None and sent.listed[0] is route and sent.listed[1] == engines:
            return sent
        return _Sent(listed, _arguments(model, listed))

    async def gateways(self) -> tuple[GatewayBeat, ...]:
        """Return each gateway's last beat; whether it still lives is for the caller to watch by its sequence."""
        try:
            raw = await self._redis.execute("HVALS", GATEWAYS_KEY)
        except RegistryError as error:
            raise RegistryUnavailable(str(error)) from error
        parser = Parser()
        beats = (parser.record(GatewayBeat, value) for value in raw)
        return tuple(beat for beat in beats if beat is not None)


def _id(item: tuple[ModelId, _ListedModel]) -> ModelId:
    return item[0]


def _arguments(model: ModelId, listed: _ListedModel) -> list[Argument]:
    route, engines = listed
    by_address = {engine.grpc: engine for engine in engines}
    written = UNKNOWN_ROUTE if route is None else route.model_dump_json()
    found: list[Argument] = [model, written, len(by_address)]
    for address, engine in sorted(by_address.items()):
        found += [address, engine.model_dump_json()]
    return found
