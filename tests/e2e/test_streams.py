"""Many streams at once, clients that go, and parts that die while streams run."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from statistics import median

import aiohttp
import psutil
import pytest

from testkit.http.chat_streams import StreamResult, chat_body, stream_chat
from testkit.models.golden import Golden
from testkit.processes.conch_up import EXAMPLE, ConchUp

PACED = """\
apiVersion: conch.dev/v1alpha1
kind: ModelDeployment
metadata: {{name: {name}}}
spec:
  kind: LLM
  servedNames: [{name}]
  source: {{path: {folder}}}
  engine:
    cpu: {{maxBatchSize: {slots}, tokensPerSecond: {pace}}}
"""
THINKING = {
    "messages": [{"role": "user", "content": "What is 5 + 6?"}, {"role": "assistant", "content": "<think>\n"}],
    "continue_final_message": True,
    "add_generation_prompt": False,
    "logit_bias": {"279": 100},
    "include_reasoning": False,
}
"""A prompt over which a model thinks until it is cut, and shows nothing of it."""
COUNT = "Count from 1 to 50."
HANGS_S = 60
NOTICED_S = 20
"""Less than the time-out between two tokens."""
TRIES = 10
"""A machine that pauses makes several tokens arrive at once; one stream that comes token by token is proof."""


@pytest.fixture(scope="module")
def conch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConchUp]:
    """Run a Conch of its own with a fast model, a paced one, and a paced one that serves one request at a time."""
    folder = tmp_path_factory.mktemp("faults")
    paced = folder / "paced.yaml"
    model = EXAMPLE.parent / "tiny-chat"
    paced.write_text(
        PACED.format(name="paced", folder=model, slots=32, pace=10)
        + "---\n"
        + PACED.format(name="single", folder=model, slots=1, pace=5)
        + "---\n"
        + PACED.format(name="impatient", folder=model, slots=4, pace=20)
        + "  routing: {interTokenTimeout: 1s}\n"
    )
    with ConchUp(folder / "state", EXAMPLE, paced) as running:
        yield running


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as opened:
        yield opened


async def test_64_streams_at_once_each_get_their_own_text(
    conch: ConchUp, session: aiohttp.ClientSession, golden: Golden
) -> None:
    items = [item for item in golden.chats() if item.name != "story"]
    chosen = [items[index % len(items)] for index in range(64)]
    results = await asyncio.gather(
        *(
            stream_chat(
                session,
                conch.base_url,
                {"model": "tiny-chat", "messages": item.messages, "temperature": 0, "stream": True},
            )
            for item in chosen
        )
    )
    assert [result.text for result in results] == [item.text for item in chosen]
    assert all(result.done and result.finish_reason == "stop" for result in results)


async def test_each_token_of_a_paced_stream_arrives_while_the_next_is_made(
    conch: ConchUp, session: aiohttp.ClientSession
) -> None:
    for _ in range(TRIES):
        first = asyncio.Event()
        body = chat_body("paced", COUNT, max_tokens=20)
        stream = asyncio.create_task(stream_chat(session, conch.base_url, body, first))
        await asyncio.wait_for(first.wait(), HANGS_S)
        early = not stream.done()
        result = await asyncio.wait_for(stream, HANGS_S)
        assert result.done
        if early and result.frames > 15:  # for the role, each token and the end, but for a rare pair
            return
    pytest.fail("No stream came token by token.")


async def test_a_stream_lives_as_long_as_its_engine_works_on_what_nobody_sees(
    conch: ConchUp, session: aiohttp.ClientSession
) -> None:
    body = chat_body("impatient", "", max_tokens=320, stream_options={"include_usage": True}) | THINKING
    result = await asyncio.wait_for(stream_chat(session, conch.base_url, body), HANGS_S)
    assert (result.error, result.broken, result.done) == (None, None, True)
    assert (result.text, result.finish_reason) == ("", "length")
    assert result.usage is not None
    assert result.usage["completion_tokens"] == 320


async def test_a_client_that_goes_frees_the_engine_within_a_second(
    conch: ConchUp, session: aiohttp.ClientSession
) -> None:
    others = [
        asyncio.create_task(stream_chat(session, conch.base_url, chat_body("paced", COUNT, max_tokens=20)))
        for _ in range(5)
    ]
    waits = [await _change_of_hands_s(conch, session) for _ in range(5)]
    assert median(waits) < 1.0 + 2 / 5  # the first tokens are paced at 5 a second
    assert all(result.done for result in await asyncio.gather(*others))


async def _change_of_hands_s(conch: ConchUp, session: aiohttp.ClientSession) -> float:
    """Return how long a request waits for the engine's only place after the one that had it has gone."""
    body = chat_body("single", COUNT, max_tokens=900, ignore_eos=True)
    starts = [asyncio.Event() for _ in range(2)]
    holder = asyncio.create_task(stream_chat(session, conch.base_url, body, starts[0]))
    await asyncio.wait_for(starts[0].wait(), HANGS_S)
    follower = asyncio.create_task(stream_chat(session, conch.base_url, body, starts[1]))
    holder.cancel()
    gone = time.monotonic()
    await asyncio.wait_for(starts[1].wait(), HANGS_S)
    follower.cancel()
    return time.monotonic() - gone


async def test_streams_and_new_requests_survive_the_death_of_redis(
    conch: ConchUp, session: aiohttp.ClientSession
) -> None:
    starts = [asyncio.Event() for _ in range(20)]
    streams = [
        asyncio.create_task(stream_chat(session, conch.base_url, chat_body("paced", COUNT, max_tokens=40), start))
        for start in starts
    ]
    await asyncio.wait_for(asyncio.gather(*(start.wait() for start in starts)), HANGS_S)
    conch.process("valkey-server" if _runs(conch, "valkey-server") else "redis-server").kill()
    fresh = await stream_chat(session, conch.base_url, chat_body("tiny-chat", "What is 2+2?"))
    assert fresh.text == "2 + 2 = 4"
    results = await asyncio.gather(*streams)
    assert [result.broken for result in results] == [None] * 20
    assert all(result.done and len(result.text) > 20 for result in results)
    assert len({result.text for result in results}) == 1
    later = await stream_chat(session, conch.base_url, chat_body("tiny-chat", "What is 2+2?"))
    assert later.text == "2 + 2 = 4"


async def test_an_engine_that_dies_ends_its_streams_with_an_error_frame_and_comes_back(
    conch: ConchUp, session: aiohttp.ClientSession
) -> None:
    first = asyncio.Event()
    stream = asyncio.create_task(
        stream_chat(session, conch.base_url, chat_body("single", COUNT, max_tokens=900, ignore_eos=True), first)
    )
    await asyncio.wait_for(first.wait(), HANGS_S)
    _engine(conch, "single").kill()
    _assert_lost(await asyncio.wait_for(stream, NOTICED_S))
    await _answers_again(conch, session, "single")


async def test_a_worker_that_dies_ends_its_streams_with_an_error_frame_and_requests_wait_for_the_next(
    conch: ConchUp, session: aiohttp.ClientSession
) -> None:
    first = asyncio.Event()
    body = chat_body("paced", COUNT, max_tokens=900, ignore_eos=True)
    stream = asyncio.create_task(stream_chat(session, conch.base_url, body, first))
    await asyncio.wait_for(first.wait(), HANGS_S)
    conch.process("conch_llm_worker").kill()
    _assert_lost(await asyncio.wait_for(stream, NOTICED_S))
    await _answers(conch, session)


async def test_requests_wait_for_a_tokenizer_that_dies_and_comes_back(
    conch: ConchUp, session: aiohttp.ClientSession
) -> None:
    conch.process("conch_tokenizer").kill()
    await _answers(conch, session)


async def _answers(conch: ConchUp, session: aiohttp.ClientSession) -> None:
    """Ask three times at once, and once only."""
    asked = (stream_chat(session, conch.base_url, chat_body("tiny-chat", "What is 2+2?")) for _ in range(3))
    results = await asyncio.wait_for(asyncio.gather(*asked), HANGS_S)
    assert [(result.text, result.error) for result in results] == [("2 + 2 = 4", None)] * 3


def _assert_lost(result: StreamResult) -> None:
    assert result.broken is None
    assert result.error is not None
    assert result.error["code"] == "upstream_lost"
    assert not result.done
    assert result.finish_reason is None


def _runs(conch: ConchUp, marker: str) -> bool:
    return any(marker in " ".join(process.cmdline()) for process in conch.processes())


def _engine(conch: ConchUp, model: str) -> psutil.Process:
    for process in conch.processes():
        line = " ".join(process.cmdline())
        if "tritonserver" in line and f"{model}" in line:
            return process
    raise AssertionError(f"No tritonserver of {model} runs.")


async def _answers_again(conch: ConchUp, session: aiohttp.ClientSession, model: str) -> None:
    deadline = time.monotonic() + HANGS_S
    while True:
        result = await stream_chat(session, conch.base_url, chat_body(model, "What is 2+2?"))
        if result.text == "2 + 2 = 4":
            return
        assert result.broken is None
        assert result.error is not None
        assert result.status in (200, 502, 503)
        assert time.monotonic() < deadline, f"{model} did not answer again: {result}"
        await asyncio.sleep(0.1)
