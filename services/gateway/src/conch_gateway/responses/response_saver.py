"""Saves one answer, together with the conversation that led to it, before its client hears that it is complete."""

from collections.abc import Sequence
from dataclasses import dataclass

import orjson
from prometheus_client import Counter

from conch_gateway.inference.intake import off_loop
from conch_gateway.responses.conversation import Item
from conch_gateway.responses.store import MAX_RECORD_BYTES, ResponseStore


@dataclass(frozen=True, slots=True)
class ResponseSaver:
    """What is to be saved with an answer, and where."""

    store: ResponseStore
    owner: str
    response_id: str
    items: Sequence[Item]
    wanted: bool
    """Whether the client wants the answer to be saved."""
    lost: Counter
    """Counts answers that should have been saved and are not."""

    async def save(self, answer: bytes) -> bytes:
        """Save the answer if that is wanted, and return it with what became of that in its field `store`."""
        if not self.wanted:
            return _with_store(answer, saved=False)
        complete = _with_store(answer, saved=True)
        record = await off_loop(len(complete), self._record, complete)
        if len(record) <= MAX_RECORD_BYTES and await self.store.put(self.owner, self.response_id, record):
            return complete
        self.lost.inc()
        return _with_store(answer, saved=False)

    def _record(self, answer: bytes) -> bytes:
        return orjson.dumps({"response": orjson.Fragment(answer), "input": self.items})


def _with_store(answer: bytes, *, saved: bool) -> bytes:
    return answer.removesuffix(b"}") + b',"store":' + (b"true}" if saved else b"false}")
