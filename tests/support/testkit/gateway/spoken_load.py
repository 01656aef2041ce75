"""What gateways have to do, said by a test in their place, so that it knows what an operator hears."""

import json
import threading
from collections.abc import Mapping
from typing import Any, Self, cast

from redis import Redis

from conch_contracts.names import GATEWAYS_KEY, LOADS_KEY

FAR = 1_000_000
"""Sequence numbers beyond those that the gateway itself has come to, so that the test's word counts."""


class _Repeated:
    """Writes to Redis again and again, with another sequence number each time, while its body runs."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._sequence = FAR

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(0.5):
            self._write()

    def _write(self) -> None:
        raise NotImplementedError

    def _say(self, gateway: str, models: Mapping[str, Any]) -> None:
        self._sequence += 1
        record = json.dumps({"id": gateway, "sequence": self._sequence, "models": models})
        self._redis.hset(LOADS_KEY, gateway, record)
        self._redis.publish(LOADS_KEY, record)


class GatewayWord(_Repeated):
    """Says what the gateway that lives has to do for one model."""

    def __init__(self, redis: Redis, model: str) -> None:
        super().__init__(redis)
        self._model = model
        self._demand: dict[str, Any] = {}

    def says(self, **demand: int | Mapping[str, int]) -> None:
        """Have every gateway say this from now on."""
        self._demand = {self._model: demand}
        self._write()

    def _write(self) -> None:
        for name in cast("list[bytes]", self._redis.hkeys(GATEWAYS_KEY)):
            self._say(name.decode(), self._demand)


class LaggingGateway(_Repeated):
    """Lives beside others and has nothing to do, but applies no list of routes: what is to leave one has to wait."""

    def _write(self) -> None:
        self._say("lagging", {})
        beat = json.dumps({"id": "lagging", "sequence": self._sequence, "revision": 0})
        self._redis.hset(GATEWAYS_KEY, "lagging", beat)
