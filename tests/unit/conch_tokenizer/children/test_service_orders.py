import os
import socket
from pathlib import Path

import pytest

from conch_contracts.names import Digest
from conch_tokenizer.children.service_orders import LaneOrder, LoadOrder


def test_a_bundle_is_told_with_its_folder() -> None:
    order = LoadOrder(Digest("0" * 64), Path("/a folder/of a bundle"))
    assert LoadOrder.parse(order.pack()) == order


def test_a_connection_comes_with_its_number_until_the_service_has_gone() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs, socket.create_server(("127.0.0.1", 0)) as handed:
        LaneOrder(3, 8).send(ours, handed.fileno())
        order, connection = LaneOrder.receive(theirs)
        with connection:
            assert order == LaneOrder(3, 8)
            assert os.fstat(connection.fileno()).st_ino == os.fstat(handed.fileno()).st_ino
        ours.close()
        with pytest.raises(OSError, match="the service has closed the socket"):
            LaneOrder.receive(theirs)
