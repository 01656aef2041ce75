"""What becomes of header blocks that a server sends."""

import pytest

from conch_kit.http2 import header_blocks
from conch_kit.http2.errors import ProtocolViolation
from conch_kit.http2.header_blocks import MAX_BLOCK_BYTES, BlockReader, write_block

NO_TABLE = b"\x20"
"""The dynamic table shrinks to nothing (RFC 7541, section 6.3)."""
METHOD_GET = b"\x82"
METHOD_GET_BYTES = len(":method") + len("GET") + 32
"""What one such field counts for (RFC 7541, section 4.1)."""


def test_a_block_that_was_written_is_read_again():
    block = NO_TABLE + write_block([("grpc-status", "0"), ("grpc-message", "fine")])
    reader = BlockReader()
    assert reader.read(block) == reader.read(block) == ({"grpc-status": "0", "grpc-message": "fine"}, 2)


@pytest.mark.parametrize(
    ("fields", "counted"),
    [([], 0), ([("a", "")], 1), ([("a", "")] * 50, 51), ([("grpc-message", "x" * 3200)], 101)],
)
def test_a_block_counts_for_its_fields_and_their_lengths(fields: list[tuple[str, str]], counted: int):
    assert BlockReader().read(NO_TABLE + write_block(fields))[1] == counted


def test_only_a_few_short_blocks_are_remembered(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(header_blocks, "_REMEMBERED", 2)
    reader = BlockReader()
    for number in range(9):
        reader.read(NO_TABLE + write_block([("a", str(number))]))
    reader.read(NO_TABLE + write_block([("a", "x" * header_blocks._REMEMBERED_BYTES)]))
    assert len(reader._known) <= 2
    assert all(len(block) <= header_blocks._REMEMBERED_BYTES for block in reader._known)


def test_fields_that_count_for_more_than_a_block_may_are_refused():
    most = MAX_BLOCK_BYTES // METHOD_GET_BYTES
    assert BlockReader().read(NO_TABLE + METHOD_GET * most)[0] == {":method": "GET"}
    with pytest.raises(ProtocolViolation, match="header list larger than 65536"):
        BlockReader().read(NO_TABLE + METHOD_GET * (most + 1))


def test_a_field_of_a_dynamic_table_is_refused():
    with pytest.raises(ProtocolViolation, match="broken"):
        BlockReader().read(NO_TABLE + b"\xbe")


def test_a_block_may_change_the_tables_size_twice_and_not_on_and_on():
    assert BlockReader().read(NO_TABLE * 2 + METHOD_GET)[0] == {":method": "GET"}
    with pytest.raises(ProtocolViolation, match="on and on"):
        BlockReader().read(NO_TABLE * 3)
