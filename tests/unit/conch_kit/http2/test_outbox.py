"""What one side of a connection sends, beside what the connection's own tests show."""

import asyncio

from conch_kit.http2.outbox import Outbox
from testkit.http.http2_client import KeptWrites


async def test_nothing_is_written_to_a_connection_that_has_closed_in_the_same_turn() -> None:
    transport, outbox = KeptWrites(), Outbox(asyncio.get_running_loop())
    outbox.connect(transport)
    outbox.write(b"sent")
    await asyncio.sleep(0)
    outbox.write(b"lost")
    transport.close()
    outbox.flush()
    assert transport.take() == b"sent"
