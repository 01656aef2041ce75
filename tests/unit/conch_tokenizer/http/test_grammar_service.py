"""What becomes of a grammar's check: remembered, refused, or the service's own fault."""

import asyncio
import gc
from pathlib import Path

import pytest

from conch_contracts.messages.tokenizer_frames import Operation
from conch_contracts.names import Digest
from conch_kit.errors import BodyTooLarge, InternalError, InvalidRequest, ServiceError, Unavailable
from conch_tokenizer.children.pool import Bundle
from conch_tokenizer.children.work_board import WorkBoard, board_memory
from conch_tokenizer.errors import BundleMissing, BundleUnreadable, ChildFailed, ChildHung, ChildLost, WorkStage
from conch_tokenizer.http import grammar_service
from conch_tokenizer.http.grammar_service import MAX_BODY_BYTES, GrammarService
from conch_tokenizer.http.request_count import RequestCount

DIGEST = Digest("0" * 64)


class Pool:
    """Does what it is told for each check, after the bundle was loaded."""

    def __init__(self, outcome: Exception | None) -> None:
        self.checks = 0
        self._outcome = outcome

    async def run(self, operation: Operation, payload: bytes, bundle: Bundle | None = None) -> bytes:
        assert operation is Operation.CHECK_GRAMMAR
        if bundle is None:
            raise BundleMissing(DIGEST)
        self.checks += 1
        await asyncio.sleep(0)
        if self._outcome is not None:
            raise self._outcome
        return b"{}"


class Bundles:
    async def folder(self, digest: Digest) -> Path:
        return Path("/folder")


def service_on(pool: Pool) -> GrammarService:
    with board_memory(1) as memory:
        return GrammarService(pool, Bundles(), RequestCount(WorkBoard(memory).row(0)))


@pytest.mark.parametrize(
    ("outcome", "said"), [(InvalidRequest("no text matches it"), "no text matches it"), (ChildLost("x"), "more time")]
)
async def test_a_bad_grammar_is_checked_once_and_refused_each_time(outcome: Exception, said: str) -> None:
    pool = Pool(outcome)
    service = service_on(pool)
    refused = await asyncio.gather(*(service.check(b"bad") for _ in range(5)), return_exceptions=True)
    assert [type(error) for error in refused] == [InvalidRequest] * 5
    assert all(said in error.message for error in refused)
    assert pool.checks == 1


async def test_nothing_is_held_for_a_grammar_once_it_is_checked() -> None:
    def locks() -> int:
        gc.collect()
        return sum(isinstance(each, asyncio.Lock) for each in gc.get_objects())

    service = service_on(Pool(None))
    before = locks()
    await asyncio.gather(*(service.check(body) for body in (b"a", b"a", b"b")))
    assert locks() == before


async def test_only_so_many_verdicts_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grammar_service, "_REMEMBERED", 2)
    pool = Pool(None)
    service = service_on(pool)
    for body in (b"a", b"b", b"a", b"c", b"a"):  # the one that was asked for last is kept
        await service.check(body)
    assert pool.checks == 3
    await service.check(b"b")
    assert pool.checks == 4


async def test_a_good_grammar_is_checked_once() -> None:
    pool = Pool(None)
    service = service_on(pool)
    await asyncio.gather(*(service.check(body) for body in (b"a", b"a", b"b", b"a")))
    assert pool.checks == 2


@pytest.mark.parametrize(
    ("outcome", "expected", "code", "retryable"),
    [
        (ChildHung(4, WorkStage.BEGUN), Unavailable, "overloaded", True),
        (ChildFailed("x"), InternalError, None, False),
        (BundleUnreadable("x"), Unavailable, "tokenizer_invalid", False),
        (Unavailable("full", retryable=True), Unavailable, "overloaded", True),
    ],
)
async def test_what_is_no_fault_of_the_grammar_is_tried_again(
    outcome: Exception, expected: type[ServiceError], code: str | None, retryable: bool
) -> None:
    pool = Pool(outcome)
    service = service_on(pool)
    for _ in range(2):
        with pytest.raises(expected) as refused:
            await service.check(b"x")
        assert (refused.value.code, refused.value.retryable) == (code, retryable)
    assert pool.checks == 2


@pytest.mark.parametrize(("more", "refused"), [(0, False), (1, True)])
async def test_a_grammar_that_is_too_long_is_refused_unchecked(more: int, refused: bool) -> None:
    pool = Pool(None)
    answers: list[dict[str, object]] = []

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"a" * (MAX_BODY_BYTES + more), "more_body": False}

    async def send(message: dict[str, object]) -> None:
        answers.append(message)

    served = service_on(pool)({"type": "http", "headers": []}, receive, send)
    if refused:
        with pytest.raises(BodyTooLarge):
            await served
    else:
        await served
    assert (pool.checks, bool(answers)) == ((0, False) if refused else (1, True))
