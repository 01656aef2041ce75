"""Saves one answer, together with the conversation that led to it, before its client hears that it is complete."""

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from conch_gateway.inference.intake import off_loop
from conch_gateway.responses.conversation import Item
from conch_gateway.responses.store import MAX_RECORD_BYTES, ResponseStore
from conch_kit.metric_families import CounterValue


@dataclass(frozen=True, slots=True)
class ResponseSaver:
    """What is to be saved with an answer, and where."""

    store: ResponseStore
    owner: str
    response_id: str
    items: Sequence[Item]
    wanted: bool
    """Whether the client wants the answer to be saved."""
    lost: CounterValue
    """Counts answers that should have been saved and are not."""

    async def save(self, answer: bytes) -> bytes:
        """Save the answer if that is wanted, and return it with what became of that in its field `store`."""
        if not self.wanted:
            return with_store(answer, saved=False)
        complete = with_store(answer, saved=True)
        record = await off_loop(len(complete), self._record, complete)
        if len(record) <= MAX_RECORD_BYTES and await self.store.put(self.owner, self.response_id, record):
            return complete
        self.lost.inc()
        return with_store(answer, saved=False)

    def _record(self, answer: bytes) -> bytes:
        return orjson.dumps({"response": orjson.Fragment(answer), "input": self.items})


def with_store(answer: bytes, *, saved: bool) -> bytes:
    """Return an answer with its field `store`, which says what became of it."""
    return answer.removesuffix(b"}") + b',"store":' + (b"true}" if saved else b"false}")
