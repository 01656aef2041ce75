import pytest

from conch_operator.external_scaler.answers import QUIET_S, ActivityNews, is_active, metric_of, needed
from conch_operator.scaling.decision import ModelLoad


@pytest.mark.parametrize(
    ("sequences", "called", "proven", "least"),
    [(0, False, True, 0), (0, True, True, 1), (0, False, False, 1), (0, True, False, 1), (7, True, False, 7)],
)
def test_an_engine_may_be_needed_without_a_request(sequences: int, called: bool, proven: bool, least: int) -> None:
    for complete in (False, True):
        load = ModelLoad(sequences, complete=complete)
        assert needed(load, called=called, proven=proven) == ModelLoad(least, complete=complete)


@pytest.mark.parametrize(
    ("sequences", "complete", "active"),
    [(0, True, False), (1, True, True), (1, False, True), (0, False, None)],
)
def test_who_does_not_know_all_says_only_that_there_is_something(
    sequences: int, complete: bool, active: bool | None
) -> None:
    assert is_active(ModelLoad(sequences, complete=complete)) is active


@pytest.mark.parametrize(
    ("sequences", "complete", "engines", "value"),
    [
        (0, True, 3, 0),
        (25, True, 3, 25),
        (0, False, 0, None),
        (1, False, 0, 1),
        (1, False, 1, None),
        (20, False, 2, None),
        (21, False, 2, 21),
    ],
)
def test_what_is_not_all_is_said_only_where_it_needs_more_engines(
    sequences: int, complete: bool, engines: int, value: int | None
) -> None:
    assert metric_of(ModelLoad(sequences, complete=complete), 10.0, engines) == value


def heard(*looks: tuple[float, bool | None]) -> list[bool | None]:
    news = ActivityNews()
    return [news.look(active, now_s) for now_s, active in looks]


def test_a_stream_hears_at_once_what_is_so_when_it_opens() -> None:
    assert heard((0.0, False)) == [False]
    assert heard((0.0, True)) == [True]
    assert heard((0.0, None), (1.0, None), (2.0, False)) == [None, None, False]


def test_a_beginning_is_told_at_once_and_an_end_after_a_while() -> None:
    began_and_ended = (0.0, False), (0.1, True), (0.2, False), (0.1 + QUIET_S, False), (0.2 + QUIET_S, False)
    assert heard(*began_and_ended, (9.0, False)) == [False, True, None, None, False, None]


def test_requests_with_a_pause_between_them_are_one_beginning() -> None:
    assert heard((0.0, True), (0.1, False), (0.2, True), (QUIET_S, False), (3.0, True)) == [True, *[None] * 4]


def test_an_end_is_not_told_while_nobody_knows() -> None:
    assert heard((0.0, True), (1.0, False), (1.5, None), (9.0, False), (9.0 + QUIET_S, False)) == [
        True,
        None,
        None,
        None,
        False,
    ]
