"""Processes that take no connection: which other one is asked, and when the same one again; on fakes."""

import asyncio
from itertools import count

import pytest

from conch_contracts.names import (
    CHECK_GRAMMAR_PATH,
    GENERATE_PATH,
    PREPARE_PATH,
    SERVER_SHUTTING_DOWN,
    TOKENIZER_NOT_READY,
    WorkerUrl,
)
from conch_contracts.records import Engine, Pool, RoutingPolicy
from conch_gateway.placement.attempts import ATTEMPTS, RequestAttempts, ServiceProcesses
from conch_gateway.placement.pool_return import TURN_S, PoolReturn
from conch_gateway.placement.retry_budget import REQUESTS_PER_RETRY, RESERVE, RetryBudget
from conch_gateway.placement.time_left import TimeLeft
from conch_gateway.placement.waiting_room import WaitingRoom
from conch_gateway.upstream.port import ConnectFailed, ConnectTimedOut
from conch_kit.errors import Unavailable
from testkit.gateway.fakes import (
    ENGINE,
    FakeAnswer,
    FakeUpstream,
    answered,
    gateway,
    lost,
    prepared,
    refused,
    route,
    snapshot,
)

CHAT = {"model": "tiny-chat", "messages": [{"role": "user", "content": "hi"}]}
DEAD, LIVING = WorkerUrl("http://w1:1"), WorkerUrl("http://w2:1")
NEVER_THERE = PoolReturn("worker", lambda: False, tuple, WaitingRoom(0))


@pytest.mark.parametrize(
    ("path", "pool", "answer"),
    [(PREPARE_PATH, "tokenizers", prepared(3)), (GENERATE_PATH, "workers", answered(b"{}"))],
)
async def test_a_dead_process_beside_a_living_one_fails_no_request(path, pool, answer):
    """It has the least load, and there are not as many retries as requests."""
    served = gateway(
        {path: lambda post: ConnectFailed("gone") if post.url == DEAD else answer(post)},
        known=snapshot(**{pool: (DEAD, LIVING)}),
    )
    statuses = [(await served.client.post("/v1/chat/completions", CHAT)).status for _ in range(RESERVE * 3)]
    assert statuses == [200] * len(statuses)
    assert 0 < sum(post.url == DEAD for post in served.upstream.posts) < RESERVE


async def test_another_worker_is_tried_when_one_cannot_be_reached():
    answers = iter([ConnectFailed("no"), FakeAnswer(pieces=(b"{}",))])
    served = gateway({GENERATE_PATH: lambda _: next(answers)}, known=snapshot(workers=(DEAD, LIVING)))
    assert (await served.client.post("/v1/chat/completions", CHAT)).status == 200
    assert len({post.url for post in served.upstream.posts[1:]}) == 2


@pytest.mark.parametrize("path", [PREPARE_PATH, GENERATE_PATH])
@pytest.mark.parametrize(
    ("failures", "status"),
    [
        ((ConnectTimedOut("slow"), ConnectTimedOut("slow")), 200),
        ((ConnectTimedOut("slow"), ConnectFailed("gone")), 503),
        ((ConnectTimedOut("slow"),) * 3, 503),
        ((ConnectFailed("gone"),), 503),
    ],
)
async def test_the_only_process_gets_another_chance_when_it_is_slow_to_take_a_connection(path, failures, status):
    last = prepared(3) if path == PREPARE_PATH else answered(b"{}")
    left = iter(failures)
    served = gateway({path: lambda post: next(left, None) or last(post)})
    answer = await served.client.post("/v1/chat/completions", CHAT)
    assert answer.status == status
    assert len([post for post in served.upstream.posts if post.path == path]) == len(failures) + (status == 200)


def shutting_down() -> FakeAnswer:
    return refused(503, "bye", code=SERVER_SHUTTING_DOWN, retryable=True)


@pytest.mark.parametrize("path", [PREPARE_PATH, GENERATE_PATH])
@pytest.mark.parametrize(
    "failures",
    [
        (ConnectFailed("gone"),) * ATTEMPTS,
        (ConnectTimedOut("slow"),) * (ATTEMPTS + 1),
        (lost(),),
        (shutting_down(), ConnectFailed("gone")),
    ],
    ids=["refuses connections", "takes none", "breaks off", "shuts down"],
)
async def test_a_request_waits_for_the_only_process_that_is_away(path, failures):
    last = prepared(3) if path == PREPARE_PATH else answered(b"{}")
    left = iter(failures)
    served = gateway({path: lambda post: next(left, None) or last(post)}, once_there=lambda _: True)
    assert (await served.client.post("/v1/chat/completions", CHAT)).status == 200
    assert len([post for post in served.upstream.posts if post.path == path]) == len(failures) + 1


@pytest.mark.parametrize(
    ("path", "pool", "last"),
    [(PREPARE_PATH, "tokenizers", prepared(3)), (GENERATE_PATH, "workers", answered(b"{}"))],
)
async def test_a_request_waits_where_all_processes_have_died_that_are_announced_still(path, pool, last):
    first, turns = lost(), ATTEMPTS
    died = iter([first, *[ConnectFailed("gone")] * (2 * turns)])
    served = gateway(
        {path: lambda post: next(died, None) or last(post)},
        known=snapshot(**{pool: (DEAD, LIVING)}),
        once_there=lambda _: True,
    )
    assert (await served.client.post("/v1/chat/completions", CHAT)).status == 200
    assert len([post for post in served.upstream.posts if post.path == path]) == 1 + 2 * turns + 1


@pytest.mark.parametrize(("path", "name"), [(PREPARE_PATH, "tokenizer"), (GENERATE_PATH, "worker")])
@pytest.mark.parametrize("wait_s", [0.01, 1.5 * TURN_S], ids=["before it may ask", "after it has asked"])
async def test_a_process_that_is_away_for_too_long_is_what_the_client_is_told(path, name, wait_s):
    known = snapshot(route(routing=RoutingPolicy(queue_wait_s=wait_s)))
    served = gateway({path: lambda _: ConnectFailed("gone")}, known=known, once_there=lambda _: True)
    answer = await asyncio.wait_for(served.client.post("/v1/chat/completions", CHAT), 30)
    assert (answer.status, answer.error["message"]) == (503, f"No {name} answered.")


@pytest.mark.parametrize("path", [PREPARE_PATH, GENERATE_PATH])
async def test_nobody_waits_for_a_process_that_is_there_and_refuses(path):
    code = "overloaded" if path == PREPARE_PATH else TOKENIZER_NOT_READY
    served = gateway({path: lambda _: refused(503, "busy", code=code, retryable=True)}, once_there=lambda _: True)
    answer = await asyncio.wait_for(served.client.post("/v1/chat/completions", CHAT), 10)
    assert (answer.status, answer.error["message"]) == (503, "busy")
    assert len([post for post in served.upstream.posts if post.path == path]) == 1


async def steps() -> None:
    """Let everything that need not wait take its next steps."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_who_has_a_turn_waits_on_when_the_process_has_gone_in_the_same_moment():
    alive = here = snapshot(workers=(LIVING,)).workers[Pool.LLM]
    line = PoolReturn("worker", lambda: True, lambda: alive, WaitingRoom(0))
    processes = ServiceProcesses("worker", FakeUpstream({}), lambda: alive, RetryBudget(lambda: None), line)
    alive = ()
    waiting = asyncio.create_task(RequestAttempts(processes, route(), TimeLeft(60.0), 0).until_someone_is_there())
    await steps()
    alive = here
    line.answered(LIVING)
    alive = ()
    await steps()
    assert not waiting.done()
    alive = here
    line.answered(LIVING)
    await asyncio.wait_for(waiting, 30)


async def test_a_request_waits_for_a_worker_that_goes_while_it_waits_for_an_engine():
    done = asyncio.Event()
    held = iter([FakeAnswer(pieces=(done, b"{}"))])
    known, engines = snapshot().workers[Pool.LLM], (Engine(grpc=ENGINE, slots=1),)
    workers = tuple(beat.url for beat in known)
    served = gateway(
        {GENERATE_PATH: lambda post: next(held, None) or answered(b"{}")(post)},
        known=snapshot(engines=engines),
        once_there=lambda _: True,
    )
    async with asyncio.timeout(60):
        first = asyncio.create_task(served.client.post("/v1/chat/completions", CHAT))
        await served.upstream.asked(GENERATE_PATH).wait()
        second = asyncio.create_task(served.client.post("/v1/chat/completions", CHAT))
        await steps()
        assert list(served.admission.waiting().values()) == [1]
        served.learn(snapshot(engines=engines, workers=()))
        done.set()
        assert (await first).status == 200
        await steps()
        assert not second.done()
        served.learn(snapshot(engines=engines, workers=workers))
        assert (await second).status == 200


async def test_a_request_that_breaks_the_only_worker_each_time_it_comes_back_is_given_to_it_twice():
    served = gateway({GENERATE_PATH: lambda _: lost()}, once_there=lambda _: True)
    answer = await served.client.post("/v1/chat/completions", CHAT)
    assert (answer.status, len(served.upstream.sent(GENERATE_PATH))) == (502, 2)


def test_a_failure_is_kept_no_longer_than_until_it_is_told():
    """Its traceback holds whoever keeps it, and that would keep all of a request until garbage is collected."""
    processes = ServiceProcesses("worker", FakeUpstream({}), tuple, RetryBudget(count().__next__), NEVER_THERE)
    attempts = RequestAttempts(processes, route(), TimeLeft(1.0), 0)
    failure = Unavailable("The worker broke down.")
    attempts.note(failure)
    assert attempts.take_failure() is failure
    assert attempts.take_failure().message == "No worker is running."


@pytest.mark.parametrize(
    ("failure", "workers", "counted"),
    [
        (ConnectFailed("gone"), (), 0),
        (ConnectFailed("gone"), (LIVING,), 0),
        (ConnectTimedOut("slow"), (), 0),
        (ConnectTimedOut("slow"), (LIVING,), 1),
        (lost(), (), 1),
        (Unavailable("busy"), (), 1),
    ],
)
def test_an_attempt_costs_nothing_when_nobody_was_there_to_make_it_with(failure, workers, counted):
    alive = snapshot(workers=workers).workers[Pool.LLM]
    spent = count()
    budget = RetryBudget(spent.__next__)
    processes = ServiceProcesses("worker", FakeUpstream({}), lambda: alive, budget, NEVER_THERE)
    attempts = RequestAttempts(processes, route(), TimeLeft(1.0), 0)
    assert attempts.may_follow(failure)
    assert (attempts.failed, next(spent)) == (counted, counted)


def test_each_request_earns_a_part_of_a_retry():
    budget = RetryBudget(lambda: None)
    while budget.spend():
        pass
    processes = ServiceProcesses("worker", FakeUpstream({}), tuple, budget, NEVER_THERE)
    for _ in range(REQUESTS_PER_RETRY):
        RequestAttempts(processes, route(), TimeLeft(1), 0)
    assert [budget.spend(), budget.spend()] == [True, False]


def test_who_is_left_is_asked_without_a_turn():
    """Else of two equal processes a retry would always meet the same one."""
    beats = snapshot(tokenizers=(DEAD, LIVING)).workers[Pool.TOKENIZER]
    processes = ServiceProcesses("tokenizer", FakeUpstream({}), lambda: beats, RetryBudget(lambda: None), NEVER_THERE)
    assert RequestAttempts(processes, route(), TimeLeft(1.0), 0).anyone_left()
    assert processes.balancer.turn == 0


async def test_grammars_that_fail_use_up_no_retries_of_prompts():
    """Clients send grammars, and one that is never checked in time may be tried again."""
    attempts = count()  # of prompts: each is asked twice
    served = gateway(
        {
            CHECK_GRAMMAR_PATH: lambda _: refused(503, "busy", retryable=True),
            PREPARE_PATH: lambda post: prepared(3)(post) if next(attempts) % 2 else ConnectFailed("gone"),
            GENERATE_PATH: answered(b"{}"),
        },
        known=snapshot(tokenizers=(DEAD, LIVING)),
    )
    for _ in range(RESERVE * 2):
        assert (await served.client.post("/v1/chat/completions", {**CHAT, "guided_regex": "a+"})).status == 503
    assert [(await served.client.post("/v1/chat/completions", CHAT)).status for _ in range(4)] == [200] * 4
