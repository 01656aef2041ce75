import pytest

from conch_contracts.records import GatewayLoad
from conch_kit.registry.load_book import LoadBook
from testkit.clock import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def book(clock: FakeClock) -> LoadBook:
    return LoadBook(clock, without="me")


def _load(name: str, sequence: int) -> GatewayLoad:
    return GatewayLoad(id=name, sequence=sequence)


def _living(book: LoadBook) -> list[tuple[str, int]]:
    return [(load.id, load.sequence) for load in book.living()]


def test_the_newest_record_of_each_of_the_others_counts(book: LoadBook) -> None:
    heard = [book.hear(_load(*said)) for said in (("a", 2), ("b", 7), ("a", 1), ("a", 2), ("a", 3), ("me", 9))]
    assert heard == [True, True, False, False, True, False]
    assert _living(book) == [("a", 3), ("b", 7)]


def test_a_gateway_whose_sequence_stands_still_for_six_seconds_is_gone(book: LoadBook, clock: FakeClock) -> None:
    book.hear(_load("a", 1))
    book.hear(_load("b", 1))
    clock.advance(6)
    book.hear(_load("a", 1))
    book.hear(_load("b", 2))
    assert _living(book) == [("a", 1), ("b", 2)]
    clock.advance(0.01)
    assert _living(book) == [("b", 2)]
    book.hear(_load("a", 2))
    assert _living(book) == [("a", 2), ("b", 2)]


def test_who_could_not_be_heard_has_the_full_time_again(book: LoadBook, clock: FakeClock) -> None:
    book.hear(_load("a", 1))
    before = book.living()
    clock.advance(100)
    book.forgive(before)
    clock.advance(6)
    assert _living(book) == [("a", 1)]


def test_a_record_that_stands_still_for_a_minute_is_forgotten(book: LoadBook, clock: FakeClock) -> None:
    book.hear(_load("a", 1))
    clock.advance(60)
    book.hear(_load("b", 1))
    assert book.silent() == []
    clock.advance(0.01)
    assert book.silent() == ["a"]
    book.forget(["a"])
    assert book.known() == (_load("b", 1),)


def test_who_speaks_while_it_is_to_be_forgotten_is_not(book: LoadBook, clock: FakeClock) -> None:
    book.hear(_load("a", 1))
    clock.advance(61)
    gone = book.silent()
    book.hear(_load("a", 2))
    book.forget(gone)
    assert _living(book) == [("a", 2)]
