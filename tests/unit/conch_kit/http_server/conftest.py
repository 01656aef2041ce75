import asyncio

import pytest

from testkit.http.http_caller import PlayedCaller


@pytest.fixture
async def caller():
    made = PlayedCaller()
    yield made
    made.goes_on.set()
    made.hangs_up()
    await asyncio.wait_for(made.server.finish(), 10)
