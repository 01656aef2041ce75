"""The way of a grammar through the ASGI application, on fakes."""

from conch_contracts.messages.generation import GenerateRequest
from conch_contracts.names import CHECK_GRAMMAR_PATH, GENERATE_PATH, PREPARE_PATH
from testkit.gateway.fakes import gateway, refused, route, snapshot

CHAT = {"model": "tiny-chat", "messages": [{"role": "user", "content": "hi"}]}
PATH = "/v1/chat/completions"


async def test_a_grammar_is_checked_and_travels_to_the_engine():
    served = gateway()
    await served.client.post(PATH, {**CHAT, "guided_choice": ["a", "b"]})
    grammar = {"kind": "choice", "definition": '["a", "b"]', "whitespace": None}
    assert [post.path for post in served.upstream.posts] == [CHECK_GRAMMAR_PATH, PREPARE_PATH, GENERATE_PATH]
    (check,) = served.upstream.sent(CHECK_GRAMMAR_PATH)
    assert (check["grammar"], check["foreign"]) == (grammar, False)
    (message,) = served.upstream.sent(GENERATE_PATH)
    assert GenerateRequest.model_validate(message).sampling.grammar.model_dump() == grammar


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
