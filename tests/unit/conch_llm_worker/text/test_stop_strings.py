import random

import pytest

from conch_llm_worker.text.stop_strings import Scan, StopScanner


def scan_all(scanner: StopScanner, pieces: list[str]) -> tuple[str, str | None]:
    text = ""
    for piece in pieces:
        scan = scanner.feed(piece)
        text += scan.text
        if scan.stop is not None:
            return text, scan.stop
    return text + scanner.flush(), None


@pytest.mark.parametrize(
    ("stops", "pieces", "kept", "stop"),
    [
        (["END"], ["one ", "E", "N", "D", " two"], "one ", "END"),
        (["END"], ["one E", "N", "d"], "one ENd", None),
        (["END"], ["one EN"], "one EN", None),
        (["aab"], ["a", "a", "a", "b"], "a", "aab"),
        (["x", "abc"], ["ab", "x"], "ab", "x"),
        (["abc", "b"], ["abc"], "a", "b"),
        (["b", "ab"], ["ab"], "", "ab"),
        (["\n\n"], ["a\n", "\nb"], "a", "\n\n"),
        (["。"], ["你好", "。", "x"], "你好", "。"),
        ([""], ["abc"], "abc", None),
    ],
)
def test_text_is_cut_at_the_stop_string(stops: list[str], pieces: list[str], kept: str, stop: str | None) -> None:
    assert scan_all(StopScanner(stops, include=False), pieces) == (kept, stop)


def test_the_stop_string_stays_when_asked_for_and_nothing_follows_it() -> None:
    assert scan_all(StopScanner(["END"], include=True), ["a E", "ND b"]) == ("a END", "END")


def test_only_what_may_become_a_stop_string_is_held_back() -> None:
    scanner = StopScanner(["stop", "st. "], include=False)
    assert scanner.feed("a st") == Scan("a ", None)
    assert scanner.feed("a") == Scan("sta", None)
    assert scanner.feed(" s") == Scan(" ", None)
    assert scanner.flush() == "s"


def test_the_result_does_not_depend_on_how_the_text_is_cut() -> None:
    chance = random.Random(3)
    for _ in range(500):
        text = "".join(chance.choice("ab") for _ in range(12))
        stops = ["".join(chance.choice("ab") for _ in range(chance.randrange(1, 5))) for _ in range(3)]
        at = sorted(chance.sample(range(12), 4))
        pieces = [text[start:end] for start, end in zip([0, *at], [*at, 12], strict=True)]
        assert scan_all(StopScanner(stops, include=False), pieces) == scan_all(
            StopScanner(stops, include=False), list(text)
        ), (text, stops, pieces)
