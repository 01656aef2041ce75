from conch_speech_worker.transcript.words import words_of


class Texts:
    """A vocabulary whose ids are places in a list of pieces; some are halves of a character."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces

    def text(self, ids):
        return b"".join(self._pieces[number] for number in ids).decode("utf-8", "replace")


def words(*pieces: bytes, bounds: tuple[float, float] = (10.0, 20.0)):
    times = [0.5 * index for index in range(len(pieces) + 1)]
    found = words_of(range(len(pieces)), times, 10.0, bounds, Texts(*pieces))
    return [(word.text, word.start, word.end) for word in found]


def test_a_space_begins_a_word_and_punctuation_is_none():
    assert words(b" Hel", b"lo", b",", b" you", b"!") == [("Hello", 10.0, 11.5), ("you", 11.5, 12.5)]


def test_a_script_without_spaces_has_a_word_for_each_character():
    ni = "你".encode()
    assert words(b" ", ni[:2], ni[2:], "好".encode()) == [("你", 10.5, 11.5), ("好", 11.5, 12.0)]


def test_no_word_leaves_its_segment():
    assert words(b" a", b" b", b" c", b" d", bounds=(10.7, 11.2)) == [
        ("a", 10.7, 10.7),
        ("b", 10.7, 11.0),
        ("c", 11.0, 11.2),
        ("d", 11.2, 11.2),
    ]


def test_bytes_that_make_no_character_are_looked_at_no_longer_than_one_may_be():
    assert words(*[b"\x80"] * 9, bounds=(0.0, 20.0)) == [("\ufffd" * 9, 10.0, 14.5)]
    lengths = []

    class Counted(Texts):
        def text(self, ids):
            lengths.append(len(ids))
            return super().text(ids)

    words_of([0] * 100, [0.0] * 101, 0.0, (0.0, 1.0), Counted(b"\x80"))
    assert max(lengths) == 4


def test_a_character_of_four_ids_is_one():
    clef = "\U0001d11e".encode()
    assert words(b" ", *(bytes([byte]) for byte in clef)) == [("\U0001d11e", 10.0, 12.5)]


def test_what_breaks_off_in_a_character_is_kept():
    assert words(b" a", b"\xe4") == [("a\ufffd", 10.0, 11.0)]
