"""What clients meet at the bounds of a deployment: a full queue, an engine that is away, templates of their own.

The SDK, with the retries that it has by default, gets its answer as soon as there is room again.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pytest
from openai import DefaultHttpxClient, OpenAI

from conch_operator.routes.engine_contract import BATCHES_IN_FLIGHT
from testkit.http.json_post import Answered, post
from testkit.processes.conch_up import EXAMPLE, ConchUp

MODEL = f"""\
apiVersion: conch.dev/v1alpha1
kind: ModelDeployment
metadata: {{name: narrow}}
spec:
  kind: LLM
  source: {{path: {EXAMPLE.parent / "tiny-chat"}}}
  engine: {{cpu: {{maxBatchSize: 1}}}}
  routing: {{queue: {{max: 1}}}}
"""
HELLO = [{"role": "user", "content": "Hello!"}]
ROOM = BATCHES_IN_FLIGHT + 1
"""So many requests with the engine, and one in the queue."""
OWN_TEMPLATE = "{% for message in messages %}{{ message.content }}{% endfor %}"
REFUSED_WITHIN_S = 2.5
"""The 2 s that a template has, and what the rest of an answer takes."""


class Refusal(NamedTuple):
    """What the SDK got before its answer."""

    status: int
    code: str
    retry_after_s: int


@pytest.fixture(scope="module")
def conch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConchUp]:
    folder = tmp_path_factory.mktemp("narrow")
    file = folder / "narrow.yaml"
    file.write_text(MODEL)
    with ConchUp(folder / "state", file, settings={"CONCH_CHAT_TEMPLATES": "true"}) as running:
        yield running


def chat(conch: ConchUp, **fields: object) -> Answered:
    body = {"model": "narrow", "messages": HELLO, "temperature": 0, "max_tokens": 4, **fields}
    return post(f"{conch.base_url}/chat/completions", body)


def asked(conch: ConchUp, on_refusal: Callable[[Refusal], None]) -> int:
    """Ask through the SDK as it comes and return how often it tried again; call back for every refusal."""

    def notice(response: Any) -> None:
        if response.status_code != 200:
            response.read()
            code = response.json()["error"]["code"]
            on_refusal(Refusal(response.status_code, code, int(response.headers["retry-after"])))

    with (
        DefaultHttpxClient(event_hooks={"response": [notice]}) as http,
        OpenAI(base_url=conch.base_url, api_key="x", max_retries=2, http_client=http) as sdk,
    ):
        answer = sdk.chat.completions.with_raw_response.create(model="narrow", messages=HELLO, max_tokens=4)
        assert answer.parse().choices[0].message.content
        return answer.retries_taken


def test_the_sdk_comes_again_when_the_queue_was_full(conch: ConchUp) -> None:
    refusals: list[Refusal] = []
    engine = conch.process("tritonserver")

    def go_on(refusal: Refusal) -> None:
        refusals.append(refusal)
        engine.resume()

    engine.suspend()  # so that the one request too many comes while the others wait
    try:
        with ThreadPoolExecutor(ROOM + 1) as pool:
            retried = list(pool.map(lambda _: asked(conch, go_on), range(ROOM + 1)))
    finally:
        engine.resume()
    assert sum(retried) == len(refusals) >= 1
    assert {(status, code) for status, code, _ in refusals} == {(429, "rate_limit_exceeded")}
    assert all(refusal.retry_after_s >= 1 for refusal in refusals)


def test_a_request_waits_for_an_engine_that_was_killed(conch: ConchUp) -> None:
    engine = conch.process("tritonserver")
    engine.kill()
    assert chat(conch).status == 200


def test_a_template_of_the_request_takes_the_place_of_the_models(conch: ConchUp) -> None:
    own = chat(conch, chat_template=OWN_TEMPLATE, return_token_ids=True)
    assert own.status == 200
    ids = post(f"{conch.base_url}/tokenize", {"model": "narrow", "prompt": "Hello!", "add_special_tokens": False})
    assert own.body["choices"][0]["message"]["prompt_token_ids"] == ids.body["tokens"]


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{% for i in range(10**9) %}{% endfor %}",
        "{% for i in range(10**5) %}{% for j in range(10**5) %}{% endfor %}{% endfor %}",
        "{{ 'x' * 10**10 }}",
        "{% for",
    ],
)
def test_a_template_that_does_harm_is_a_400_in_its_time(conch: ConchUp, template: str) -> None:
    def refusal_s(number: int) -> float:
        began = time.perf_counter()
        answer = chat(conch, chat_template=f"{template}{{# {number} #}}")
        took_s = time.perf_counter() - began
        assert (answer.status, answer.body["error"]["param"]) == (400, "chat_template"), answer.body
        return took_s

    assert any(refusal_s(number) < REFUSED_WITHIN_S for number in range(5))
    assert chat(conch).status == 200
