"""Where the engines of a model are: the one that the gateway chose, and those that serve the model by now."""

import random
from collections.abc import Callable, Sequence, Set

from conch_contracts.messages.message import changed
from conch_contracts.messages.transcription import SpeechTarget
from conch_contracts.names import EngineAddress
from conch_contracts.records import Route
from conch_kit.redis.client import RedisClient
from conch_kit.registry.published_model import published_model
from conch_kit.triton.checked_addresses import CheckedAddresses


class ReadyEngines:
    """The engines that the registry names, and the rules for dialling them."""

    def __init__(
        self,
        redis: RedisClient,
        addresses: CheckedAddresses,
        choose: Callable[[Sequence[SpeechTarget]], SpeechTarget] = random.choice,
    ) -> None:
        self._redis = redis
        self._addresses = addresses
        self._choose = choose

    async def dialled(self, target: SpeechTarget) -> SpeechTarget:
        """Return a target with the address at which to dial its engine; raises EngineUnavailable."""
        address = await self._addresses.dialled(target.grpc, target.named_in)
        return target if address == target.grpc else changed(target, grpc=address)

    async def another(self, target: SpeechTarget, without: Set[EngineAddress]) -> SpeechTarget | None:
        """Return an engine that takes the same prompts and gives the same ids; None where the registry names none."""
        if target.model_id is None:
            return None
        model = await published_model(self._redis, target.model_id)
        if model is None or not _is_as(target, model.route):
            return None
        found = [
            changed(target, grpc=each.grpc, named_in=each.named_in, model=each.model or model.route.engine_model)
            for each in model.engines
            if each.grpc not in without
        ]
        return self._choose(found) if found else None


def _is_as(target: SpeechTarget, route: Route) -> bool:
    """Return whether a route still tells of the model that a request was made for."""
    return (route.dialect, route.tokenizer_digest, route.max_model_len, bool(route.speech.languages)) == (
        target.dialect,
        target.tokenizer_digest,
        target.context,
        target.multilingual,
    )
