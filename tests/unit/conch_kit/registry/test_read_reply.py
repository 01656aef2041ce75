import pytest

from conch_kit.redis.errors import RegistryError
from conch_kit.registry.read_reply import Damaged, Missing, RawChanges, RawList, RawModel, Unchanged, interpret

MODEL = [b"local/a", b"{}", [b"1:1", b"{}"]]


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        ([[b"", b"", b""], []], Missing),
        ([[b"", b"", b""], [MODEL]], Missing),
        ([[b"e", b"1", b"1"]], Unchanged),
        ([[b"e", b"1", b"1"], [MODEL]], RawList),
        ([[b"e", b"1", b"0"], []], RawList),
        ([[b"e", b"1", b"1"], []], Damaged),
        ([[b"e", b"1", b"0"], [MODEL]], Damaged),
        ([[b"e", b"one", b"0"], []], Damaged),
        ([[b"e", b"9" * 5000, b"0"], []], Damaged),
        ([[b"\xff", b"1", b"0"], []], Damaged),
        ([[b"", b"1", b"0"], []], Damaged),
        ([[b"e", b"1", b"garbage"], []], Damaged),
        ([[b"e", b"8", b"2"], [MODEL, [b"local/b"]], b"7"], RawChanges),
        ([[b"e", b"eight", b"2"], [MODEL], b"7"], Damaged),
        ([[b"e", b"8", b"two"], [MODEL], b"7"], Damaged),
        ([[b"e", b"8", b"2"], [MODEL], b"seven"], Damaged),
        ([[b"", b"8", b"2"], [MODEL], b"7"], Damaged),
        (RegistryError("WRONGTYPE"), Damaged),
        (None, Damaged),
    ],
)
def test_only_a_whole_list_is_a_list(reply: object, kind: type) -> None:
    assert isinstance(interpret(reply), kind)


def test_a_list_keeps_every_value_as_it_is() -> None:
    found = interpret([[b"e", b"7", b"1"], [MODEL]])
    assert found == RawList("e", 7, (RawModel(b"local/a", b"{}", {b"1:1": b"{}"}),))


def test_changes_tell_what_is_there_from_what_has_gone() -> None:
    found = interpret([[b"e", b"8", b"2"], [MODEL, [b"local/b"]], b"7"])
    assert found == RawChanges("e", 8, 7, 2, (RawModel(b"local/a", b"{}", {b"1:1": b"{}"}),), (b"local/b",))
