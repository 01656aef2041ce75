import asyncio

from conch_kit.turns import in_turns


async def test_others_have_turns_in_a_long_loop_and_no_item_is_lost() -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    assert [item async for item in in_turns(range(501))] == list(range(501))
    task.cancel()
    assert turns == 10


async def test_a_short_loop_gives_none() -> None:
    task = asyncio.create_task(asyncio.sleep(0))
    assert [item async for item in in_turns("abc")] == ["a", "b", "c"]
    assert not task.done()
    await task
