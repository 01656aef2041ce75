"""What is read behind an answer that came before the end of its request: so much, for so long."""

from conch_kit.http_server.limits import LINGER_BYTES, LINGER_S, LONGEST_LINGER_S
from testkit.waiting import eventually

GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"


async def test_of_a_body_that_was_answered_early_only_so_much_more_is_read(caller):
    for _ in range(2):
        caller.sends(b"POST /early HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % LINGER_BYTES)
        await eventually(lambda: caller.transport.reading, "reading")
        caller.sends(bytes(LINGER_BYTES - 1))
        await caller.answered()
        await eventually(lambda: caller.transport.reading, "reading")
        caller.sends(b"x")
        assert not caller.transport.ended
    caller.sends(b"POST /early HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % (2 * LINGER_BYTES))
    await caller.answered(3)
    caller.sends(bytes(LINGER_BYTES))
    assert not caller.transport.reading
    await eventually(lambda: caller.transport.reading, "reading, in another turn")
    assert not caller.transport.ended
    caller.sends(b"x")
    assert caller.transport.ended == "closed"


async def test_what_comes_in_one_piece_with_a_refused_head_does_not_keep_the_connection_open(caller):
    caller.sends(b"GET / HTTP/1.1\r\nno: host\r\n\r\n" + GET)
    caller.waits(LINGER_S + 0.1)
    assert caller.transport.ended == "closed"


async def test_of_a_refused_request_only_so_much_more_is_read(caller):
    caller.sends(b"GET / HTTP/1.1\r\nno: host\r\n\r\n")
    caller.sends(bytes(LINGER_BYTES))
    assert not caller.transport.is_closing()
    caller.sends(b"x")
    assert caller.transport.ended == "closed"


async def test_of_a_refused_request_more_is_read_while_it_comes_and_for_so_long_only(caller):
    caller.sends(b"GET / HTTP/1.1\r\nno: host\r\n\r\n")
    for _ in range(int(LONGEST_LINGER_S / LINGER_S) - 1):
        caller.sends(b"x")
        caller.waits(LINGER_S)
        assert caller.transport.ended == "half"
    caller.sends(b"x")
    caller.waits(2 * LINGER_S)
    assert caller.transport.ended == "closed"


async def test_a_refused_request_of_which_nothing_more_comes_is_not_waited_for(caller):
    caller.sends(b"GET / HTTP/1.1\r\nno: host\r\n\r\nx")
    caller.waits(LINGER_S + 0.1)
    assert caller.transport.ended == "closed"
