"""The official SDK against a running Conch: chat completions."""

import openai
import pytest
from openai import AsyncOpenAI, OpenAI

from testkit.models.golden import Golden, load_golden

CHATS = [item.name for item in load_golden().chats()]


@pytest.mark.parametrize("name", CHATS)
@pytest.mark.parametrize("stream", [False, True])
def test_greedy_chat_equals_the_reference(client: OpenAI, golden: Golden, name: str, stream: bool) -> None:
    item = golden.named(name)
    if stream:
        chunks = list(
            client.chat.completions.create(model="tiny-chat", messages=item.messages, temperature=0, stream=True)
        )
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == item.text
        reasons = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices[0].finish_reason]
        assert reasons == [item.finish_reason]
        assert chunks[0].choices[0].delta.role == "assistant"
        assert len({(chunk.id, chunk.created, chunk.model) for chunk in chunks}) == 1
    else:
        answer = client.chat.completions.create(model="tiny-chat", messages=item.messages, temperature=0)
        assert answer.choices[0].message.content == item.text
        assert answer.choices[0].finish_reason == item.finish_reason
        assert answer.usage is not None
        assert answer.usage.prompt_tokens == len(item.prompt_ids)
        assert answer.usage.completion_tokens == len(item.output_ids)
        assert answer.usage.total_tokens == len(item.prompt_ids) + len(item.output_ids)


def test_usage_comes_last(client: OpenAI, golden: Golden) -> None:
    item = golden.named("count")
    stream = client.chat.completions.create(
        model="tiny-chat", messages=item.messages, temperature=0, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks[:-1]) == item.text
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == len(item.output_ids)
    assert all(chunk.usage is None for chunk in chunks[:-1])


def test_a_stream_without_include_usage_shows_none(client: OpenAI) -> None:
    stream = client.chat.completions.create(
        model="tiny-chat", messages=[{"role": "user", "content": "Hello!"}], stream=True, temperature=0
    )
    assert all(chunk.choices and chunk.usage is None for chunk in stream)


async def test_the_asynchronous_client_streams(base_url: str) -> None:
    async with AsyncOpenAI(base_url=base_url, api_key="x") as client:
        stream = await client.chat.completions.create(
            model="tiny-chat", messages=[{"role": "user", "content": "Hello!"}], stream=True, temperature=0
        )
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
    assert text == "Hello! How can I help you today?"


def test_closing_a_stream_early_leaves_the_server_well(client: OpenAI) -> None:
    for _ in range(10):
        stream = client.chat.completions.create(
            model="tiny-chat", messages=[{"role": "user", "content": "Count from 1 to 50."}], stream=True
        )
        next(iter(stream))
        stream.close()
    answer = client.chat.completions.create(
        model="tiny-chat", messages=[{"role": "user", "content": "What is 2+2?"}], temperature=0
    )
    assert answer.choices[0].message.content == "2 + 2 = 4"


def test_choices_with_one_seed_repeat(client: OpenAI) -> None:
    def ask() -> list[str | None]:
        answer = client.chat.completions.create(
            model="tiny-chat",
            messages=[{"role": "user", "content": "Tell me a story."}],
            n=3,
            seed=7,
            temperature=1,
            max_tokens=30,
        )
        assert [choice.index for choice in answer.choices] == [0, 1, 2]
        return [choice.message.content for choice in answer.choices]

    first = ask()
    assert first == ask()
    assert len(set(first)) > 1


def test_log_probabilities_equal_the_reference(client: OpenAI, golden: Golden) -> None:
    item = golden.named("greet")
    answer = client.chat.completions.create(
        model="tiny-chat", messages=item.messages, temperature=0, logprobs=True, top_logprobs=5
    )
    shown = answer.choices[0].logprobs
    assert shown is not None
    assert shown.content is not None
    assert "".join(entry.token for entry in shown.content[: len(item.output_ids) - 1]) == item.text
    for entry, expected in zip(shown.content, item.logprobs, strict=True):
        assert entry.logprob == pytest.approx(expected, abs=golden.tolerance_logprob)
        assert len(entry.top_logprobs) == 5


def test_what_nobody_asked_for_is_none_and_no_missing_attribute(client: OpenAI) -> None:
    asked = {"model": "tiny-chat", "max_tokens": 1}
    answer = client.chat.completions.create(messages=[{"role": "user", "content": "Hi"}], **asked)
    choice, message = answer.choices[0], answer.choices[0].message
    assert (choice.token_ids, choice.prompt_logprobs, message.reasoning, message.reasoning_content) == (None,) * 4
    assert (answer.prompt_token_ids, answer.prompt_logprobs, answer.kv_transfer_params) == (None,) * 3
    text = client.completions.create(prompt="Hi", **asked)
    chosen = text.choices[0]
    assert (chosen.token_ids, chosen.prompt_token_ids, chosen.prompt_logprobs) == (None,) * 3


def test_a_stop_string_ends_the_text_before_it(client: OpenAI) -> None:
    answer = client.chat.completions.create(
        model="tiny-chat", messages=[{"role": "user", "content": "Count from 1 to 50."}], temperature=0, stop=[", 7"]
    )
    assert answer.choices[0].message.content == "1, 2, 3, 4, 5, 6"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.choices[0].model_dump()["stop_reason"] == ", 7"


def test_max_tokens_ends_with_length(client: OpenAI) -> None:
    answer = client.chat.completions.create(
        model="tiny-chat",
        messages=[{"role": "user", "content": "Count from 1 to 50."}],
        temperature=0,
        max_completion_tokens=5,
    )
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 5


def test_the_request_id_of_the_client_comes_back(client: OpenAI) -> None:
    raw = client.chat.completions.with_raw_response.create(
        model="tiny-chat",
        messages=[{"role": "user", "content": "Hello!"}],
        extra_headers={"x-request-id": "my-own-id-1"},
    )
    assert raw.headers["x-request-id"] == "my-own-id-1"
    assert raw.parse()._request_id == "my-own-id-1"


@pytest.mark.parametrize("words", [3_000, 500_000])
def test_too_long_a_prompt_is_refused_with_the_known_code(client: OpenAI, words: int) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model="tiny-chat", messages=[{"role": "user", "content": "word " * words}])
    assert refused.value.code == "context_length_exceeded"
    assert refused.value.param == "messages"


def test_ids_stand_in_for_messages(client: OpenAI, golden: Golden) -> None:
    item = golden.chats()[0]
    answer = client.chat.completions.create(
        model="tiny-chat", messages=[], temperature=0, extra_body={"prompt_token_ids": item.prompt_ids}
    )
    assert answer.choices[0].message.content == item.text
