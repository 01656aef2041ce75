"""instructor, unchanged, against a running Conch; `tests/e2e/test_clients.py` runs this.

OPENAI_BASE_URL names the Conch, as for the SDK. The types have bounds everywhere, so that whatever a tiny model makes
of them is complete.
"""

import os
from collections.abc import Iterable
from typing import Any, Literal

import instructor
import pytest
from instructor import Mode
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel, Field, field_validator

SERVER: dict[str, Any] = {"base_url": os.environ["OPENAI_BASE_URL"], "api_key": "x", "max_retries": 8}  # noqa: TID251
MESSAGES = [{"role": "user", "content": "About Paris."}]
ASK: dict[str, Any] = {"model": "tiny-chat", "temperature": 0, "messages": MESSAGES}
TRIES = 10
"""A machine that pauses makes several tokens arrive at once."""


class Sight(BaseModel):
    name: str = Field(max_length=8)
    kind: Literal["tower", "museum"]


class City(BaseModel):
    """A city and what to see there."""

    size: Literal["big", "small"]
    sights: list[Sight] = Field(min_length=1, max_length=2)


class Weather(BaseModel):
    """The weather of a city."""

    sky: Literal["rainy", "sunny"]


@pytest.mark.parametrize("mode", [Mode.TOOLS, Mode.JSON_SCHEMA])
def test_an_answer_is_an_object_of_the_type(mode: Mode) -> None:
    client = instructor.from_openai(OpenAI(**SERVER), mode=mode)
    city, answer = client.chat.completions.create_with_completion(response_model=City, max_retries=0, **ASK)
    assert isinstance(city, City)
    assert answer.usage.completion_tokens > 0
    assert city.sights


@pytest.mark.parametrize("mode", [Mode.TOOLS, Mode.JSON_SCHEMA])
def test_an_object_can_be_watched_while_it_is_written(mode: Mode) -> None:
    client = instructor.from_openai(OpenAI(**SERVER), mode=mode)
    watched = []
    for _ in range(TRIES):
        states = list(client.chat.completions.create_partial(response_model=City, max_retries=0, **ASK))
        assert City.model_validate(states[-1].model_dump())
        watched.append(len(states))
        if watched[-1] > 2:
            return
    pytest.fail(f"No object was seen in more than two states: {watched}.")


async def test_an_asynchronous_client_gets_the_same() -> None:
    client = instructor.from_openai(AsyncOpenAI(**SERVER), mode=Mode.TOOLS)
    assert isinstance(await client.chat.completions.create(response_model=City, max_retries=0, **ASK), City)


def test_several_tools_are_called_at_once() -> None:
    client = instructor.from_openai(OpenAI(**SERVER), mode=Mode.PARALLEL_TOOLS)
    made = client.chat.completions.create(
        response_model=Iterable[City | Weather], tool_choice="required", max_tokens=200, **ASK
    )
    assert {type(one) for one in made} <= {City, Weather}


def test_the_responses_api_gives_an_object_too() -> None:
    client = instructor.from_openai(OpenAI(**SERVER), mode=Mode.RESPONSES_TOOLS)
    city = client.responses.create(model="tiny-chat", input="About Paris.", response_model=City, max_retries=0)
    assert isinstance(city, City)


def test_an_answer_that_is_refused_is_asked_for_again() -> None:
    seen = []

    class Judged(City):
        @field_validator("size")
        @classmethod
        def judge(cls, size: str) -> str:
            seen.append(size)
            if len(seen) == 1:
                raise ValueError("Look again.")
            return size

    client = instructor.from_openai(OpenAI(**SERVER), mode=Mode.TOOLS)
    assert isinstance(client.chat.completions.create(response_model=Judged, max_retries=1, **ASK), Judged)
    assert len(seen) == 2
