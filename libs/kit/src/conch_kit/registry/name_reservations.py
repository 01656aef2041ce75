"""Names of models that were deleted a moment ago, kept in Redis so that they outlive the operator."""

import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass

from conch_contracts.names import RESERVED_KEY, ModelId, ServedName
from conch_kit.redis.client import RedisClient
from conch_kit.redis.connection import Argument

RESERVED_S = 60.0
"""How long a name stays with a model after its deletion: long enough to make it again."""


class NameReservations:
    """The hash of reserved names; only the operator writes it."""

    def __init__(self, redis: RedisClient, clock: Callable[[], float] = time.time) -> None:
        self._redis = redis
        self._clock = clock

    async def renew(
        self, gone: Mapping[ServedName, ModelId], back: Mapping[ModelId, Set[ServedName]]
    ) -> Mapping[ServedName, ModelId]:
        """Reserve the names of models that have gone, each once, and return all that are reserved.

        `back`: models that are there, with the names that they want and are not served under yet; their reservations
        last until they are, and those of their other names end. Raises RegistryError and RegistryUnavailable.
        """
        found = _flat(await self._redis.execute("HGETALL", RESERVED_KEY))
        renewal = renewed(found, gone, back, self._clock())
        if renewal.over:
            await self._redis.execute("HDEL", RESERVED_KEY, *renewal.over)
        if renewal.written:
            await self._redis.execute("HSET", RESERVED_KEY, *renewal.written)
        return renewal.held


@dataclass(frozen=True, slots=True)
class Renewal:
    """What becomes of the reservations."""

    held: Mapping[ServedName, ModelId]
    """All that hold from now on."""
    over: Sequence[bytes]
    """The fields of those that have ended, or that cannot be read."""
    written: Sequence[Argument]
    """Fields and values of those that are new or hold longer."""


def renewed(
    found: Mapping[bytes, bytes],
    gone: Mapping[ServedName, ModelId],
    back: Mapping[ModelId, Set[ServedName]],
    now: float,
) -> Renewal:
    """Return what becomes of the reservations that were found, as `NameReservations.renew` has it; pure."""
    ends, held = f"{now + RESERVED_S:.0f}", {}
    over: list[bytes] = []
    written: list[Argument] = []
    for name, value in found.items():
        until, _, model = value.decode(errors="replace").partition(" ")
        served_name, owner = ServedName(name.decode(errors="replace")), ModelId(model)
        valid = bool(model) and until.isdigit() and int(until) <= now + 2 * RESERVED_S
        waits = valid and served_name in back.get(owner, ())
        if not valid or not (waits if owner in back else now < int(until)):
            over.append(name)
            continue
        held[served_name] = owner
        if waits and int(until) < now + RESERVED_S / 2:
            written += [name, f"{ends} {owner}"]
    new = {name: model for name, model in gone.items() if name not in held}
    written += [part for name, model in new.items() for part in (name, f"{ends} {model}")]
    return Renewal(held | new, over, written)


def _flat(reply: list[bytes] | dict[bytes, bytes]) -> Mapping[bytes, bytes]:
    return reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2], strict=True))
