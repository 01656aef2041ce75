"""Reads what is published of one model at this moment, for a process that keeps no snapshot of the registry."""

from dataclasses import dataclass

from conch_contracts.names import ROUTES_KEY, ModelId, engines_key
from conch_contracts.records import Engine, Route
from conch_kit.redis.client import RedisClient
from conch_kit.redis.errors import RegistryUnavailable
from conch_kit.registry.snapshot import Parser


@dataclass(frozen=True, slots=True)
class PublishedModel:
    """A model's route and the engines that serve it."""

    route: Route
    engines: tuple[Engine, ...]


async def published_model(redis: RedisClient, model: ModelId) -> PublishedModel | None:
    """Return a model as it is published now; None where Redis does not say, or says what cannot be read."""
    try:
        route, engines = await redis.pipeline([("HGET", ROUTES_KEY, model), ("HVALS", engines_key(model))])
    except RegistryUnavailable:
        return None
    if not isinstance(route, bytes) or not isinstance(engines, list):
        return None
    parser = Parser()
    read = parser.record(Route, route)
    found = (parser.record(Engine, each) for each in engines)
    return None if read is None else PublishedModel(read, tuple(engine for engine in found if engine is not None))
