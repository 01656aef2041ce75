"""A lane's requests on the wire."""

import asyncio
import socket
from unittest.mock import Mock

from conch_contracts.messages.tokenizer_frames import Operation
from conch_gateway.upstream.lane import Lane
from conch_kit.frames import pack


async def test_a_machine_that_has_gone_is_found_though_nobody_waits_for_it():
    lane, wire = Lane("tokenizer", None, lambda _: None), Mock(asyncio.Transport)
    lane.connection_made(wire)
    asked = [call.args for call in wire.get_extra_info.return_value.setsockopt.mock_calls]
    assert (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1) in asked
    assert {option for level, option, _ in asked if level == socket.IPPROTO_TCP} >= {socket.TCP_KEEPIDLE}


async def test_requests_of_one_turn_go_out_in_one_write():
    lane, wire = Lane("tokenizer", None, lambda _: None), Mock(asyncio.Transport)
    lane.connection_made(wire)
    wire.reset_mock()
    for body in (b"one", b"two"):
        lane.ask(Operation.PREPARE, body)
    await asyncio.sleep(0)
    lane.ask(Operation.TOKENIZE, b"three")
    await asyncio.sleep(0)
    frames = [pack(Operation.PREPARE, b"one", 1) + pack(Operation.PREPARE, b"two", 2)]
    assert [call.args[0] for call in wire.write.mock_calls] == [*frames, pack(Operation.TOKENIZE, b"three", 3)]
