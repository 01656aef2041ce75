from collections.abc import Mapping, Set

import pytest

from conch_contracts.names import ModelId, ServedName
from conch_kit.registry.name_reservations import RESERVED_S, Renewal, renewed

CHAT, A, B = ServedName("chat"), ModelId("local/a"), ModelId("local/b")
NOW = 1000.0
ENDS = "1060"
LASTS = {b"chat": b"1050 local/a"}
ENDED = {b"chat": b"1000 local/a"}


@pytest.mark.parametrize(
    ("found", "gone", "back", "expected"),
    [
        pytest.param({}, {CHAT: A}, {}, Renewal({CHAT: A}, [], ["chat", f"{ENDS} {A}"]), id="a model has gone"),
        pytest.param(LASTS, {CHAT: A}, {}, Renewal({CHAT: A}, [], []), id="it is reserved once"),
        pytest.param(LASTS, {CHAT: B}, {}, Renewal({CHAT: A}, [], []), id="the first to go keeps it"),
        pytest.param(ENDED, {}, {}, Renewal({}, [b"chat"], []), id="its time is over"),
        pytest.param(ENDED, {}, {A: {CHAT}}, Renewal({CHAT: A}, [], [b"chat", f"{ENDS} {A}"]), id="back and waiting"),
        pytest.param(LASTS, {}, {A: {CHAT}}, Renewal({CHAT: A}, [], []), id="waiting, and long enough"),
        pytest.param(LASTS, {}, {A: set()}, Renewal({}, [b"chat"], []), id="back, and wants it no more"),
        pytest.param({b"chat": b"garbage"}, {}, {}, Renewal({}, [b"chat"], []), id="unreadable"),
        pytest.param({b"chat": b"1050"}, {}, {}, Renewal({}, [b"chat"], []), id="without a model"),
        pytest.param({b"chat": b"soon local/a"}, {}, {}, Renewal({}, [b"chat"], []), id="without a time"),
        pytest.param({b"chat": b"9999 local/a"}, {}, {}, Renewal({}, [b"chat"], []), id="too far ahead"),
    ],
)
def test_a_name_stays_with_who_has_gone_for_a_while(
    found: Mapping[bytes, bytes],
    gone: Mapping[ServedName, ModelId],
    back: Mapping[ModelId, Set[ServedName]],
    expected: Renewal,
) -> None:
    assert float(ENDS) == NOW + RESERVED_S
    assert renewed(found, gone, back, NOW) == expected
