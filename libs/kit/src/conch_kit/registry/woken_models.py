"""Models that somebody wants awake: gateways leave word (`load_writer`), the operator reads it.

Nobody takes a wish back, so one that goes from Redis before its time was lost with what else Redis held: whoever has
read it writes it again.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from conch_contracts.names import WAKES_KEY, ModelId
from conch_kit.redis.client import RedisClient
from conch_kit.redis.errors import RegistryError, RegistryUnavailable
from conch_kit.registry.scripts import FORGET_WAKES, WAKE


class WokenModels:
    """The hash of wishes, as the operator has it."""

    def __init__(self, redis: RedisClient, clock: Callable[[], float] = time.time) -> None:
        self._redis = redis
        self._clock = clock
        self._known: Mapping[ModelId, float] = {}

    async def read(self) -> Mapping[ModelId, float]:
        """Return until when each model is to be awake, in Unix seconds; what is over is taken out.

        Raises RegistryUnavailable and RegistryError.
        """
        found = await self._redis.execute("HGETALL", WAKES_KEY)
        wishes = dict(zip(found[::2], found[1::2], strict=True))
        now = self._clock()
        past = {model: at for model, at in wishes.items() if _seconds(at) <= now}
        there = {
            ModelId(model.decode(errors="replace")): _seconds(at) for model, at in wishes.items() if model not in past
        }
        lost = {model: at for model, at in self._known.items() if at > now and there.get(model, 0.0) < at}
        self._known = there | lost
        with suppress(RegistryUnavailable, RegistryError):
            if past:
                forget = (part for wish in past.items() for part in wish)
                await self._redis.execute("EVAL", FORGET_WAKES, 1, WAKES_KEY, *forget)
            for model, at in lost.items():
                until = f"{at:.3f}".removesuffix(".000")
                await self._redis.execute("EVAL", WAKE, 1, WAKES_KEY, model, until, 1)
        return self._known


def _seconds(raw: bytes) -> float:
    try:
        return float(raw)
    except ValueError:
        return 0.0
