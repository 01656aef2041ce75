"""Keeps one answer, together with the conversation that led to it, before its client hears that it is complete."""

from collections.abc import Sequence
from dataclasses import dataclass

import orjson
from prometheus_client import Counter

from conch_gateway.inference.intake import off_loop
from conch_gateway.responses.conversation import Item
from conch_gateway.responses.store import MAX_RECORD_BYTES, ResponseStore


@dataclass(frozen=True, slots=True)
class ResponseSaver:
    """What is to be kept with an answer, and where."""

    store: ResponseStore
    owner: str
    response_id: str
    items: Sequence[Item]
    wanted: bool
    """Whether the client wants the answer to be kept."""
    lost: Counter
    """Counts answers that should have been kept and are not."""

    async def keep(self, answer: bytes) -> bytes:
        """Keep the answer if it is wanted, and return it with what became of that in `store`."""
        if not self.wanted:
            return _said(answer, kept=False)
        said = _said(answer, kept=True)
        record = await off_loop(len(said), self._record, said)
        if len(record) <= MAX_RECORD_BYTES and await self.store.put(self.owner, self.response_id, record):
            return said
        self.lost.inc()
        return _said(answer, kept=False)

    def _record(self, answer: bytes) -> bytes:
        return orjson.dumps({"response": orjson.Fragment(answer), "input": self.items})


def _said(answer: bytes, *, kept: bool) -> bytes:
    return answer.removesuffix(b"}") + b',"store":' + (b"true}" if kept else b"false}")
