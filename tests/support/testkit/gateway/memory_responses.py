"""A store of Responses in memory."""

import json

from conch_gateway.responses.store import Record, ResponseNote
from conch_kit.errors import Unavailable


class MemoryResponses:
    """Keeps answers in memory, unless it is `away`."""

    def __init__(self) -> None:
        self.records: dict[tuple[str, str], bytes] = {}
        self.notes: dict[tuple[str, str, ResponseNote], str] = {}
        self.away = False
        self.refused = 0
        """How often an answer could not be kept."""
        self.told = 0
        """How many notes were left."""
        self.asked = 0
        """How often somebody looked for a note."""

    async def get(self, owner: str, response_id: str) -> Record | None:
        self._answer()
        found = self.records.get((owner, response_id))
        record: Record | None = None if found is None else json.loads(found)
        return record

    async def put(self, owner: str, response_id: str, record: bytes) -> bool:
        if self.away:
            self.refused += 1
        else:
            self.records[owner, response_id] = record
        return not self.away

    async def delete(self, owner: str, response_id: str) -> bool:
        self._answer()
        return self.records.pop((owner, response_id), None) is not None

    async def note(self, owner: str, response_id: str, note: ResponseNote) -> str | None:
        self.asked += 1
        self._answer()
        return self.notes.get((owner, response_id, note))

    async def leave_note(self, owner: str, response_id: str, note: ResponseNote, text: str, ttl_s: float) -> None:
        self._answer()
        self.told += 1
        self.notes[owner, response_id, note] = text

    def _answer(self) -> None:
        if self.away:
            raise Unavailable("The store of responses does not answer.", code="store_unavailable")


class GoesWithTheAnswer(MemoryResponses):
    """Takes an answer that has ended, and is away from then on."""

    async def put(self, owner: str, response_id: str, record: bytes) -> bool:
        kept = await super().put(owner, response_id, record)
        self.away = json.loads(record)["response"]["status"] == "completed"
        return kept
