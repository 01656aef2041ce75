import pytest

from conch_speech_worker.transcript.segments import HeardWindow, compression_ratio, segments_of
from testkit.builders.transcriptions import FIRST_TIME as T0
from testkit.builders.transcriptions import VOCABULARY


def heard(*ids: int, times: tuple[float, ...] | None = None) -> HeardWindow:
    return HeardWindow(ids, tuple(-0.1 for _ in ids), -0.1, 0.0, 0.01, None, times)


@pytest.mark.parametrize(
    ("ids", "found"),
    [
        ((), []),
        ((T0, T0 + 50), []),
        ((T0, 1, 2, T0 + 50), [(100.0, 101.0, " w01 w02")]),
        ((T0, 1, T0 + 50, T0 + 50, 2, T0 + 75), [(100.0, 101.0, " w01"), (101.0, 101.5, " w02")]),
        ((T0, 1, T0 + 50, T0 + 100, 2), [(100.0, 101.0, " w01"), (102.0, 120.0, " w02")]),
        ((1, 2), [(100.0, 120.0, " w01 w02")]),
        ((T0 + 900, 3, T0 + 1200), [(118.0, 120.0, " w03")]),
        ((T0 + 50, 1, T0 + 100, T0 + 25, 2, T0 + 75), [(101.0, 102.0, " w01"), (102.0, 102.0, " w02")]),
    ],
)
def test_times_part_the_ids_into_segments(ids, found):
    segments = segments_of(heard(*ids), VOCABULARY, start_s=100.0, length_s=20.0)
    assert [(one.start, one.end, one.text) for one in segments] == found
    assert {one.seek for one in segments} <= {10_000}


def test_words_have_the_times_of_their_ids():
    window = heard(T0, 1, 2, T0 + 50, times=(0.0, 0.1, 0.5, 0.9, 0.9))
    (segment,) = segments_of(window, VOCABULARY, start_s=10.0, length_s=20.0)
    assert [(word.text, word.start, word.end) for word in segment.words] == [("w01", 10.1, 10.5), ("w02", 10.5, 10.9)]


def test_words_lie_in_their_segments_whatever_their_ids_look_at():
    window = heard(T0 + 50, 1, T0 + 100, T0 + 100, 2, T0 + 150, times=(0.0, 0.2, 1.5, 1.5, 1.5, 2.6, 3.4))
    first, second = segments_of(window, VOCABULARY, start_s=10.0, length_s=20.0)
    assert [(word.start, word.end) for word in first.words] == [(11.0, 11.5)]
    assert [(word.start, word.end) for word in second.words] == [(12.0, 12.6)]


def test_a_window_that_is_heard_again_begins_behind_what_was_heard():
    window = heard(T0, 1, T0 + 50, times=(0.1, 0.2, 0.9, 0.9))
    (segment,) = segments_of(window, VOCABULARY, start_s=10.0, length_s=20.0, after_s=10.3)
    (word,) = segment.words
    assert (segment.start, segment.end, word.start, word.end) == (10.3, 11.0, 10.3, 10.9)


def test_a_text_that_repeats_itself_compresses_well():
    assert compression_ratio("no no no no " * 50) > 2.4 > compression_ratio("A plain sentence, said once.") > 0
    assert compression_ratio("") == 0
