import numpy as np
import pytest

from conch_contracts.messages.generation import SamplingParameters, ThinkingLimit
from conch_runtime_cpu.masks.thinking_mask import ThinkingMask, thinking_mask

START, END, WORD, SIZE = 1, 2, 3, 5


class OnlyWords:
    """Allows one id, and remembers what was chosen."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def fill(self, allowed: np.ndarray) -> None:
        allowed[:] = False
        allowed[WORD] = True

    def accept(self, token: int) -> None:
        self.seen.append(token)

    @property
    def complete(self) -> bool:
        return False

    @property
    def finished(self) -> bool:
        return True

    @property
    def fault(self) -> str:
        return "why"


def allowed_after(mask: ThinkingMask, *tokens: int) -> list[int]:
    for token in tokens:
        mask.accept(token)
    row = np.zeros(SIZE, np.bool_)
    mask.fill(row)
    return np.flatnonzero(row).tolist()


def limited(tokens: int, *, opened: bool = False) -> ThinkingLimit:
    return ThinkingLimit(start_id=START, end_id=END, opened=opened, tokens=tokens)


ALL = list(range(SIZE))


@pytest.mark.parametrize(
    ("limit", "tokens", "allowed"),
    [
        (limited(2), (), ALL),
        (limited(2), (WORD, WORD, WORD), ALL),
        (limited(2), (START, WORD), ALL),
        (limited(2), (START, WORD, WORD), [END]),
        (limited(2), (START, WORD, WORD, END), ALL),
        (limited(2), (START, WORD, END, WORD, START, WORD, WORD, WORD), ALL),
        (limited(0), (START,), [END]),
        (limited(0, opened=True), (), [END]),
        (limited(1, opened=True), (WORD,), [END]),
        (limited(1, opened=True), (END,), ALL),
    ],
)
def test_only_the_mark_may_come_when_the_tokens_are_spent(
    limit: ThinkingLimit, tokens: tuple[int, ...], allowed: list[int]
) -> None:
    assert allowed_after(ThinkingMask(limit), *tokens) == allowed


def test_another_mask_holds_beside_it_and_sees_every_token() -> None:
    other = OnlyWords()
    mask = ThinkingMask(limited(1), other)
    assert allowed_after(mask) == [WORD]
    assert allowed_after(mask, START, WORD) == [END]
    assert allowed_after(mask, END) == [WORD]
    assert other.seen == [START, WORD, END]
    assert (mask.complete, mask.finished, mask.fault) == (False, True, "why")


def test_a_limit_alone_lets_an_answer_end_anywhere() -> None:
    mask = ThinkingMask(limited(1))
    assert (mask.complete, mask.finished, mask.fault) == (True, False, "")


def test_a_request_without_a_limit_has_no_mask() -> None:
    other = OnlyWords()
    assert thinking_mask(SamplingParameters(max_tokens=1)) is None
    assert thinking_mask(SamplingParameters(max_tokens=1), other) is other
