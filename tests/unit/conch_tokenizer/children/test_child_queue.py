"""Who gets a child, and that none is lost on the way."""

import asyncio

from conch_tokenizer.children.child_queue import ChildQueue
from conch_tokenizer.children.connection import ChildConnection


def child(number: int = 0) -> ChildConnection:
    return ChildConnection(number, lambda: None)


async def test_a_child_that_was_given_in_the_moment_of_leaving_goes_to_the_next() -> None:
    queue, given = ChildQueue(), child()
    leaving, waiting = queue.join(), queue.join()
    queue.offer(given)
    assert leaving.child.result() is given
    queue.leave(leaving)
    assert waiting.child.result() is given
    assert queue.waiting == 0


async def test_who_leaves_without_a_child_takes_none_with_it() -> None:
    queue, given = ChildQueue(), child()
    leaving = queue.join()
    queue.leave(leaving)
    queue.offer(given)
    assert queue.take() is given
    assert not leaving.child.done()


async def test_a_request_whose_wait_was_cancelled_gets_no_child() -> None:
    queue, given = ChildQueue(), child()
    cancelled, waiting = queue.join(), queue.join()
    cancelled.child.cancel()
    queue.offer(given)
    assert waiting.child.result() is given


async def test_a_killed_child_is_not_given_to_anybody_before_its_socket_is_closed() -> None:
    queue, killed, sound = ChildQueue(), child(1), child(2)
    queue.offer(sound)
    queue.offer(killed)
    killed.kill()
    assert queue.take() is sound
    await asyncio.sleep(0)
    queue.offer(killed)
    assert queue.take() is None


async def test_who_wants_a_child_that_was_killed_does_not_get_it() -> None:
    queue, killed = ChildQueue(), child()
    queue.offer(killed)
    killed.kill()
    assert queue.take(killed) is None


async def test_who_wants_one_child_waits_for_it_while_others_are_served() -> None:
    queue, wanted, other = ChildQueue(), child(1), child(2)
    queue.offer(other)
    assert queue.take(wanted) is None
    picky, anybody = queue.join(wanted), queue.join()
    queue.offer(other)
    assert anybody.child.result() is other
    queue.offer(wanted)
    assert picky.child.result() is wanted
