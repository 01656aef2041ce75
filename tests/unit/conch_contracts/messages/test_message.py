import pytest

from conch_contracts.messages.encoding import EncodeRequest
from conch_contracts.messages.message import InvalidMessage, from_json

DEEP = 100_000


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b'{"request_id": 1}', b'{"x": "\xff"}', b'{"request_id": "\xff"}', b'{"x":' + b"[" * DEEP],
    ids=["nothing", "cut", "no object", "another type", "no text", "no text in a field", "deep"],
)
def test_what_is_no_message_is_one_error_whatever_is_wrong_with_it(data: bytes) -> None:
    with pytest.raises(InvalidMessage):
        from_json(EncodeRequest, data)
