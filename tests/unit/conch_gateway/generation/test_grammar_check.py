"""The way of a grammar through the ASGI application, on fakes."""

import asyncio

import msgspec

from conch_contracts.messages.generation import GenerateRequest
from conch_contracts.messages.grammar import Grammar
from conch_contracts.names import CHECK_GRAMMAR_PATH, GENERATE_PATH, PREPARE_PATH
from conch_contracts.records import ChatProfile, RoutingPolicy
from conch_gateway.placement.pool_return import TURN_S
from conch_gateway.upstream.port import ConnectFailed
from testkit.gateway.fakes import FakeAnswer, answered, gateway, prepared, refused, route, snapshot

CHAT = {"model": "tiny-chat", "messages": [{"role": "user", "content": "hi"}]}
PATH = "/v1/chat/completions"


async def test_a_grammar_is_checked_and_travels_to_the_engine():
    served = gateway()
    await served.client.post(PATH, {**CHAT, "guided_choice": ["a", "b"]})
    grammar = {"kind": "choice", "definition": '["a", "b"]'}
    assert [post.path for post in served.upstream.posts] == [CHECK_GRAMMAR_PATH, PREPARE_PATH, GENERATE_PATH]
    (check,) = served.upstream.sent(CHECK_GRAMMAR_PATH)
    assert (check["grammar"], check["foreign"]) == (grammar, False)
    (message,) = served.upstream.sent(GENERATE_PATH)
    assert msgspec.convert(type=GenerateRequest, obj=message).sampling.grammar == msgspec.convert(grammar, Grammar)


async def test_a_grammar_that_holds_is_not_checked_again():
    served = gateway()
    for _ in range(2):
        await served.client.post(PATH, {**CHAT, "guided_choice": ["a", "b"]})
    await served.client.post(PATH, {**CHAT, "guided_choice": ["a", "c"]})
    checked = [check["grammar"]["definition"] for check in served.upstream.sent(CHECK_GRAMMAR_PATH)]
    assert checked == ['["a", "b"]', '["a", "c"]']
    first, second, _ = served.upstream.sent(GENERATE_PATH)
    assert first["sampling"] == second["sampling"]


async def test_a_grammar_that_could_not_be_checked_is_checked_again():
    answers = iter([refused(400, "no text matches it"), FakeAnswer(pieces=[b"{}"])])
    served = gateway({CHECK_GRAMMAR_PATH: lambda _: next(answers)})
    statuses = [(await served.client.post(PATH, {**CHAT, "guided_choice": ["a"]})).status for _ in range(2)]
    assert statuses == [400, 200]


async def test_a_request_waits_for_a_tokenizer_no_longer_because_it_has_a_grammar():
    """It has time for one turn, which the check uses."""
    left = iter([ConnectFailed("gone")])
    served = gateway(
        {
            CHECK_GRAMMAR_PATH: lambda post: next(left, None) or answered(b"{}")(post),
            PREPARE_PATH: lambda _: ConnectFailed("gone"),
        },
        known=snapshot(route(routing=RoutingPolicy(queue_wait_s=1.5 * TURN_S))),
        once_there=lambda _: True,
    )
    answer = await asyncio.wait_for(served.client.post(PATH, {**CHAT, "guided_choice": ["a"]}), 30)
    assert (answer.status, answer.error["message"]) == (503, "No tokenizer answered.")
    assert len(served.upstream.sent(PREPARE_PATH)) <= 1


async def test_requests_with_a_grammar_wait_in_the_same_line_as_those_without():
    """It has room for one."""
    left = {path: iter([ConnectFailed("gone")]) for path in (PREPARE_PATH, CHECK_GRAMMAR_PATH)}
    served = gateway(
        {
            PREPARE_PATH: lambda post: next(left[PREPARE_PATH], None) or prepared(3)(post),
            CHECK_GRAMMAR_PATH: lambda post: next(left[CHECK_GRAMMAR_PATH], None) or answered(b"{}")(post),
        },
        known=snapshot(route(routing=RoutingPolicy(queue_max=1))),
        once_there=lambda _: True,
    )
    async with asyncio.timeout(30):
        first = asyncio.create_task(served.client.post(PATH, CHAT))
        while not served.upstream.posts:  # noqa: ASYNC110
            await asyncio.sleep(0)
        second = await served.client.post(PATH, {**CHAT, "guided_choice": ["a"]})
        assert (second.status, second.error["message"]) == (503, "No tokenizer answered.")
        assert (await first).status == 200


async def test_a_bad_grammar_names_its_parameter_and_goes_no_further():
    served = gateway({CHECK_GRAMMAR_PATH: lambda _: refused(400, "no text matches it")})
    answer = await served.client.post(PATH, {**CHAT, "structured_outputs": {"regex": "a"}})
    assert answer.status == 400
    assert answer.error["param"] == "structured_outputs.regex"
    assert answer.error["message"] == "Invalid value for 'structured_outputs.regex': no text matches it."
    assert len(served.upstream.posts) == 1


async def test_an_engine_that_knows_no_grammars_says_so_at_once():
    served = gateway(known=snapshot(route(dialect="fastertransformer")))
    answer = await served.client.post(PATH, {**CHAT, "response_format": {"type": "json_object"}})
    assert (answer.status, answer.error["code"]) == (400, "unsupported_parameter")
    assert answer.error["param"] == "response_format"
    assert served.upstream.posts == []


async def test_the_tool_is_named_whose_schema_cannot_be_obeyed():
    def check(post):
        return refused(400, "it cannot be compiled") if b"broken" in post.body else FakeAnswer(pieces=(b"{}",))

    served = gateway({CHECK_GRAMMAR_PATH: check}, known=snapshot(route(chat=ChatProfile(takes_tools=True))))
    tools = [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object", "title": title}}}
        for name, title in (("f", "sound"), ("g", "broken"))
    ]
    answer = await served.client.post(PATH, {**CHAT, "tools": tools, "tool_choice": "required"})
    assert (answer.status, answer.error["param"]) == (400, "tools.1.function.parameters")
    assert answer.error["message"].endswith("it cannot be compiled.")
