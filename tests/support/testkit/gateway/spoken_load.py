"""What gateways have to do, said by a test in their place, so that it knows what an operator hears."""

import json
import threading
from collections.abc import Mapping
from typing import Any, Self, cast

from redis import Redis

from conch_contracts.names import GATEWAYS_KEY, LOADS_KEY

FAR = 1_000_000
"""Sequence numbers beyond those that the gateway itself has come to, so that the test's word counts."""


class GatewayWord:
    """Says again and again what the gateway that lives has to do for one model."""

    def __init__(self, redis: Redis, model: str) -> None:
        self._redis = redis
        self._model = model
        self._demand: dict[str, Any] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._sequence = FAR

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def says(self, **demand: int | Mapping[str, int]) -> None:
        """Have every gateway say this from now on."""
        self._demand = {self._model: demand}
        self._write()

    def _run(self) -> None:
        while not self._ended.wait(0.5):
            self._write()

    def _write(self) -> None:
        for name in cast("list[bytes]", self._redis.hkeys(GATEWAYS_KEY)):
            self._sequence += 1
            record = json.dumps({"id": name.decode(), "sequence": self._sequence, "models": self._demand})
            self._redis.hset(LOADS_KEY, name.decode(), record)
            self._redis.publish(LOADS_KEY, record)
