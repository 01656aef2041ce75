"""openai-agents and pydantic-ai, unchanged, against a running Conch; `tests/e2e/test_clients.py` runs this.

OPENAI_BASE_URL names the Conch, as for the SDK. The types have bounds everywhere, so that whatever a tiny model makes
of them is complete.
"""

import os
from collections.abc import AsyncIterator
from typing import Any, Literal

import pytest
from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from pydantic import BaseModel, Field
from pydantic_ai import Agent as TypedAgent
from pydantic_ai import NativeOutput, ToolOutput
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.models.openai import OpenAIResponsesModel as TypedResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

CAPITAL = "What is the capital of France?"
PARIS = "The capital of France is Paris."
WEATHER = "What is the weather in Reykjavik?"

set_tracing_disabled(disabled=True)


class Sight(BaseModel):
    name: str = Field(max_length=8)
    kind: Literal["tower", "museum"]


class City(BaseModel):
    """A city and what to see there."""

    size: Literal["big", "small"]
    sights: list[Sight] = Field(min_length=1, max_length=2)


@pytest.fixture
async def sdk() -> AsyncIterator[AsyncOpenAI]:
    server = os.environ["OPENAI_BASE_URL"]  # noqa: TID251
    async with AsyncOpenAI(base_url=server, api_key="x", max_retries=8) as client:
        yield client


@pytest.fixture(params=[OpenAIResponsesModel, OpenAIChatCompletionsModel])
def agent(request: pytest.FixtureRequest, sdk: AsyncOpenAI) -> Agent[Any]:
    return Agent(name="a", model=request.param("tiny-chat", sdk), model_settings=ModelSettings(temperature=0))


async def test_an_agent_answers(agent: Agent[Any]) -> None:
    assert (await Runner.run(agent, CAPITAL)).final_output == PARIS


async def test_an_agent_streams(agent: Agent[Any]) -> None:
    run = Runner.run_streamed(agent, CAPITAL)
    deltas = [
        event.data.delta
        async for event in run.stream_events()
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta"
    ]
    assert "".join(deltas) == run.final_output == PARIS  # in how many pieces depends on how busy the engine is


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_agents_tool_is_called(agent: Agent[Any], streamed: bool) -> None:
    asked = []

    @function_tool
    def get_weather(location: Literal["Reykjavik", "Paris"]) -> str:
        """Get the current weather of a place."""
        asked.append(location)
        return "rainy"

    settings = ModelSettings(temperature=0, tool_choice="get_weather")
    able = agent.clone(tools=[get_weather], model_settings=settings, tool_use_behavior="stop_on_first_tool")
    if streamed:
        run = Runner.run_streamed(able, WEATHER)
        kinds = [event.item.type async for event in run.stream_events() if event.type == "run_item_stream_event"]
    else:
        run = await Runner.run(able, WEATHER)
        kinds = [item.type for item in run.new_items]
    assert kinds[:2] == ["tool_call_item", "tool_call_output_item"]
    assert len(asked) == 1
    assert run.final_output == "rainy"


async def test_an_agents_answer_has_its_type(agent: Agent[Any]) -> None:
    assert isinstance((await Runner.run(agent.clone(output_type=City), "About Paris.")).final_output, City)


async def test_an_agent_hands_over_to_another(agent: Agent[Any]) -> None:
    settings = ModelSettings(temperature=0, tool_choice="required", parallel_tool_calls=False)
    second = agent.clone(name="second", output_type=City)
    run = await Runner.run(agent.clone(handoffs=[second], model_settings=settings), CAPITAL)
    assert run.last_agent is second
    assert isinstance(run.final_output, City)


async def test_an_agent_goes_on_from_an_answer_that_was_kept(sdk: AsyncOpenAI) -> None:
    settings = ModelSettings(temperature=0, store=True)
    agent = Agent(name="a", model=OpenAIResponsesModel("tiny-chat", sdk), model_settings=settings)
    first = await Runner.run(agent, "My name is Arthur.")
    second = await Runner.run(agent, "What is my name?", previous_response_id=first.last_response_id)
    assert "Arthur" in second.final_output


@pytest.fixture(params=[OpenAIChatModel, TypedResponsesModel])
def typed(request: pytest.FixtureRequest, sdk: AsyncOpenAI) -> TypedAgent[None, str]:
    model = request.param("tiny-chat", provider=OpenAIProvider(openai_client=sdk))
    return TypedAgent(model, model_settings={"temperature": 0, "max_tokens": 200})


async def test_a_typed_agent_answers_and_streams(typed: TypedAgent[None, str]) -> None:
    answer = await typed.run(CAPITAL)
    assert answer.output == PARIS
    assert answer.usage.output_tokens > 0
    async with typed.run_stream(CAPITAL) as stream:
        assert await stream.get_output() == PARIS


@pytest.mark.parametrize("way", [ToolOutput, NativeOutput])
async def test_a_typed_agents_answer_has_its_type(typed: TypedAgent[None, str], way: Any) -> None:
    assert isinstance((await typed.run("About Paris.", output_type=way(City))).output, City)
    async with typed.run_stream("About Paris.", output_type=way(City)) as stream:
        assert isinstance(await stream.get_output(), City)


async def test_a_typed_agents_tool_is_called(typed: TypedAgent[None, str]) -> None:
    asked = []

    @typed.tool_plain
    def get_weather(location: str) -> str:
        """Get the current weather of a place."""
        asked.append(location)
        return '{"temperature": 7, "condition": "rainy"}'

    answer = await typed.run(WEATHER)
    assert asked == ["Reykjavik"]
    assert answer.output
