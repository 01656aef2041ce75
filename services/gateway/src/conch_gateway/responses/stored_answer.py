"""An answer that was kept, as it is now: one in the background may be under way, or have lost its gateway."""

from conch_gateway.responses.store import Record, ResponseNote, ResponseStore

LEASE_S = 60.0
"""How long an answer counts as under way when its gateway does not say so any more."""
UNDER_WAY = frozenset({"queued", "in_progress"})


async def read_answer(store: ResponseStore, owner: str, response_id: str) -> Record | None:
    """Return a record as it is now: one that is under way says how far it is; raises Unavailable."""
    record = await store.get(owner, response_id)
    if record is None or record["response"]["status"] not in UNDER_WAY:
        return record
    state = await store.note(owner, response_id, ResponseNote.LEASE)
    if state is not None:
        record["response"]["status"] = state
        return record
    record = await store.get(owner, response_id)  # it may have ended in between
    if record is not None and record["response"]["status"] in UNDER_WAY:
        lost = {"code": "server_error", "message": "The server that worked on this response was lost. Ask again."}
        record["response"] |= {"status": "failed", "error": lost}
    return record
