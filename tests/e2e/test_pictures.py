"""Pictures, from a client's request to tokens of a model that sees: as the reference, whatever API they come by."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import openai
import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from testkit.models.vlm_golden import GOLDEN, ITEMS, encoded, item, of_anthropic, of_chat, of_responses, url

MODEL = "tiny-vlm"


@pytest.fixture
async def client(base_url: str) -> AsyncIterator[AsyncOpenAI]:
    """Give the SDK's client."""
    async with AsyncOpenAI(base_url=base_url, api_key="x", max_retries=0) as made:
        yield made


@pytest.mark.parametrize("one", ITEMS, ids=lambda each: each["name"])
async def test_a_chat_is_answered_as_by_the_reference(client: AsyncOpenAI, one: dict[str, Any]) -> None:
    answer = await client.chat.completions.create(
        model=MODEL,
        messages=of_chat(one),
        temperature=0,
        logprobs=True,
        max_tokens=len(one["output_ids"]),
        extra_body={"return_token_ids": True},
    )
    (choice,) = answer.choices
    extra: Any = choice
    assert answer.model_extra is not None
    assert answer.model_extra["prompt_token_ids"] == one["prompt_ids"]
    assert extra.token_ids == one["output_ids"]
    assert (choice.message.content, choice.finish_reason) == (one["text"], one["finish_reason"])
    assert choice.logprobs is not None
    made = [each.logprob for each in choice.logprobs.content or ()]
    assert made == pytest.approx(one["logprobs"], abs=GOLDEN["tolerance_logprob"])
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == len(one["prompt_ids"])


async def test_all_apis_show_a_model_the_same(client: AsyncOpenAI, base_url: str) -> None:
    one = item("What is in the first picture? (red_7, blue_4)")
    messages, most = of_chat(one), len(one["output_ids"])
    response = await client.responses.create(
        model=MODEL, input=of_responses(messages), temperature=0, max_output_tokens=most
    )
    assert response.output_text == one["text"]
    assert response.usage is not None
    async with AsyncAnthropic(base_url=base_url.removesuffix("/v1"), api_key="x", max_retries=0) as claude:
        turns = of_anthropic(messages)
        message = await claude.messages.create(
            model=MODEL, messages=turns, max_tokens=most, extra_body={"temperature": 0}
        )
        counted = await claude.messages.count_tokens(model=MODEL, messages=turns)
    (block,) = message.content
    assert (block.type, getattr(block, "text", "")) == ("text", one["text"])
    counts = {response.usage.input_tokens, message.usage.input_tokens, counted.input_tokens}
    async with aiohttp.ClientSession() as session:
        body = {"model": MODEL, "messages": messages}
        async with session.post(f"{base_url.removesuffix('/v1')}/tokenize", json=body) as answer:
            assert (await answer.json())["tokens"] == one["prompt_ids"]
    assert counts == {len(one["prompt_ids"])}


async def test_a_stored_response_keeps_its_picture(client: AsyncOpenAI) -> None:
    one = item("What color is it? (green_circle)")
    first = await client.responses.create(
        model=MODEL, input=of_responses(of_chat(one)), temperature=0, max_output_tokens=len(one["output_ids"])
    )
    (given,) = [each async for each in client.responses.input_items.list(first.id)]
    assert any(part.type == "input_image" for part in getattr(given, "content", ()))
    again = await client.responses.create(
        model=MODEL, input="What color is it?", previous_response_id=first.id, max_output_tokens=4
    )
    assert first.usage is not None
    assert again.usage is not None
    assert again.usage.input_tokens > first.usage.input_tokens


async def test_a_picture_in_the_result_of_a_tool_is_seen(client: AsyncOpenAI, base_url: str) -> None:
    kind, data = encoded("red_7.png")
    picture = {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}

    def turns(*content: dict[str, Any]) -> list[Any]:
        result = {"type": "tool_result", "tool_use_id": "call_1", "content": [{"type": "text", "text": "a"}, *content]}
        call = {"type": "tool_use", "id": "call_1", "name": "look", "input": {}}
        return [
            {"role": "user", "content": "Look!"},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result, {"type": "text", "text": "What color is it?"}]},
        ]

    async with AsyncAnthropic(base_url=base_url.removesuffix("/v1"), api_key="x", max_retries=0) as claude:
        tools: Any = [{"name": "look", "input_schema": {"type": "object"}}]
        blind = await claude.messages.count_tokens(model=MODEL, messages=turns(), tools=tools)
        seeing = await claude.messages.count_tokens(model=MODEL, messages=turns(picture), tools=tools)
        assert seeing.input_tokens >= blind.input_tokens + 64
        message = await claude.messages.create(model=MODEL, messages=turns(picture), tools=tools, max_tokens=4)
    assert message.usage.input_tokens == seeing.input_tokens


async def test_streams_of_several_pictures_are_answered_beside_each_other(client: AsyncOpenAI) -> None:
    chosen = [each for each in ITEMS if each["name"].startswith(("What color", "Describe", "text:"))]

    async def streamed(one: dict[str, Any]) -> str:
        stream = await client.chat.completions.create(
            model=MODEL, messages=of_chat(one), temperature=0, max_tokens=len(one["output_ids"]), stream=True
        )
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])

    assert await asyncio.gather(*map(streamed, chosen)) == [each["text"] for each in chosen]


async def test_words_that_look_like_a_picture_are_words(client: AsyncOpenAI) -> None:
    spelt: Any = [{"role": "user", "content": "<image> What color is it?"}]
    answer = await client.chat.completions.create(model=MODEL, messages=spelt, max_tokens=1)
    assert answer.usage is not None
    assert answer.usage.prompt_tokens < 64


BAD = {
    "no base64": "data:image/png;base64,%%%",
    "no picture": "data:image/png;base64,AAAA",
    "a drawing in XML": "data:image/svg+xml;base64,PHN2Zz48L3N2Zz4=",
    "cut": url("red_7.png")[:-200],
    "by URL": "https://example.com/red_7.png",
    "a file of the server": "file:///etc/passwd",
}


@pytest.mark.parametrize("given", BAD.values(), ids=BAD)
async def test_what_is_no_picture_is_refused_by_its_name(client: AsyncOpenAI, given: str) -> None:
    messages: Any = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": given}}]}]
    with pytest.raises(openai.BadRequestError) as refused:
        await client.chat.completions.create(model=MODEL, messages=messages)
    assert refused.value.param == "messages.0.content.0.image_url"


async def test_a_model_that_sees_nothing_says_so(client: AsyncOpenAI) -> None:
    messages = of_chat(item("What color is it? (red_7)"))
    with pytest.raises(openai.BadRequestError, match="the model takes text alone") as refused:
        await client.chat.completions.create(model="tiny-chat", messages=messages)
    assert refused.value.param == "messages.0.content.0.image_url"


async def test_more_pictures_than_a_model_takes_are_refused(client: AsyncOpenAI) -> None:
    part = of_chat(item("What color is it? (red_7)"))[0]["content"][0]
    messages: Any = [{"role": "user", "content": [part] * 5}]
    with pytest.raises(openai.BadRequestError, match="At most 4 image"):
        await client.chat.completions.create(model=MODEL, messages=messages)


async def test_a_models_card_tells_that_it_sees(base_url: str) -> None:
    async with aiohttp.ClientSession() as session, session.get(f"{base_url}/models") as answer:
        cards = {card["id"]: card["input_modalities"] for card in (await answer.json())["data"]}
    assert (cards[MODEL], cards["tiny-chat"]) == (["text", "image"], ["text"])
