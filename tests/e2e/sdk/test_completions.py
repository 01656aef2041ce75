"""The official SDK against a running Conch: text completions, models and errors."""

import openai
import pytest
from openai import OpenAI

from testkit.models.golden import Golden, load_golden

ITEMS = [item.name for item in load_golden().items]


@pytest.mark.parametrize("name", ITEMS)
def test_every_reference_output_comes_back_for_its_prompt_ids(client: OpenAI, golden: Golden, name: str) -> None:
    item = golden.named(name)
    answer = client.completions.create(model="tiny-chat", prompt=item.prompt_ids, temperature=0, max_tokens=200)
    assert answer.choices[0].text == item.text
    assert answer.choices[0].finish_reason == item.finish_reason


def test_a_list_of_prompts_gives_one_group_of_choices_each(client: OpenAI) -> None:
    answer = client.completions.create(
        model="tiny-chat", prompt=["The capital of Italy is", "The quick brown fox"], temperature=0, n=2
    )
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    assert [choice.text for choice in answer.choices] == [" Rome."] * 2 + [" jumps over the lazy dog."] * 2


def test_echo_with_log_probabilities_covers_the_prompt(client: OpenAI) -> None:
    answer = client.completions.create(
        model="tiny-chat", prompt="The capital of Italy is", echo=True, logprobs=2, temperature=0, max_tokens=3
    )
    choice = answer.choices[0]
    assert choice.text == "The capital of Italy is Rome."
    assert choice.logprobs is not None
    assert choice.logprobs.token_logprobs is not None
    assert choice.logprobs.token_logprobs[0] is None
    assert "".join(choice.logprobs.tokens or []).startswith("The capital of Italy is Rome.")


def test_sixteen_tokens_are_the_default(client: OpenAI) -> None:
    answer = client.completions.create(model="tiny-chat", prompt="Once upon a time", temperature=0)
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 16
    assert answer.choices[0].finish_reason == "length"


def test_models_are_listed_and_found_by_name(client: OpenAI) -> None:
    listed = client.models.list().data
    assert listed[0].id == "tiny-chat", "Many clients ask the first one, so it is the default model."
    assert len(listed) > 1
    assert client.models.retrieve("tiny-chat").id == "tiny-chat"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("no/such:model")


def test_an_unknown_model_is_not_found(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as refused:
        client.chat.completions.create(model="gpt-unknown", messages=[{"role": "user", "content": "x"}])
    assert refused.value.code == "model_not_found"
    assert refused.value.param == "model"
    assert refused.value.request_id


@pytest.mark.parametrize("stream", [False, True])
def test_a_value_out_of_range_names_its_parameter(client: OpenAI, stream: bool) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(
            model="tiny-chat", messages=[{"role": "user", "content": "x"}], temperature=3, stream=stream
        )
    assert refused.value.param == "temperature"
    assert refused.value.type == "invalid_request_error"


def test_a_parameter_that_is_not_built_is_refused_by_name(client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(
            model="tiny-chat",
            messages=[{"role": "user", "content": "x"}],
            extra_body={"lora_adapter": "x"},
        )
    assert refused.value.param == "lora_adapter"
    assert refused.value.code == "unsupported_parameter"


@pytest.mark.parametrize("prompt", ["", []])
def test_ids_stand_in_for_the_prompt(client: OpenAI, golden: Golden, prompt: str | list[str]) -> None:
    item = golden.chats()[0]
    answer = client.completions.create(
        model="tiny-chat",
        prompt=prompt,
        temperature=0,
        max_tokens=200,
        extra_body={"prompt_token_ids": item.prompt_ids},
    )
    assert answer.choices[0].text == item.text
