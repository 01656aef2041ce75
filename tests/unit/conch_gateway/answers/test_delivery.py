"""What becomes of a worker's signs of life on their way to the client."""

from conch_contracts.names import GENERATE_PATH
from testkit.gateway.fakes import gateway, lost, streamed

STREAM = {"model": "tiny-chat", "messages": [{"role": "user", "content": "hi"}], "stream": True}
FRAMES = (b'data: {"a":1}\n\n', b'data: {"a":2}\n\n', b"data: [DONE]\n\n")
USAGE = b': usage {"prompt_tokens":3,"completion_tokens":2}\n\n'
WORKING = b": working\n\n"
PATH = "/v1/chat/completions"


async def test_signs_of_work_are_not_relayed():
    served = gateway({GENERATE_PATH: streamed(WORKING, *FRAMES[:2], WORKING, FRAMES[2], USAGE)})
    answer = await served.client.post(PATH, STREAM)
    assert answer.body == b"".join(FRAMES)


async def test_a_sign_of_work_neither_begins_the_answer_nor_counts_as_its_first_token():
    served = gateway({GENERATE_PATH: streamed(WORKING, lost(started=True))})
    answer = await served.client.post(PATH, STREAM)
    assert (answer.status, answer.error["code"]) == (502, "upstream_lost")
    name = "conch_gateway_time_to_first_token_seconds_count"
    assert not served.registry.get_sample_value(name, {"model": "tiny-chat"})
