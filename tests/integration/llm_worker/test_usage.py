"""What streams tell of their usage on the way, by every dialect and form."""

import aiohttp
import pytest

from conch_contracts.messages.answer_parsing import Parsing
from conch_contracts.messages.generation import Api, Details
from conch_contracts.records import Profile
from testkit.engines.dialect_stand_ins import StandIn
from testkit.models.transcripts import thoughts

from .asking import TEXT, answer, ask, every, said
from .conftest import Stage


@every
@pytest.mark.parametrize("group", [1, 5])
@pytest.mark.parametrize(
    ("api", "parsing"),
    [(Api.CHAT, None), (Api.COMPLETION, None), (Api.CHAT, thoughts())],
    ids=["chat", "completion", "thinking"],
)
async def test_the_usage_so_far_grows_to_that_of_the_whole(
    engines: Stage, session: aiohttp.ClientSession, model: StandIn, group: int, parsing: Parsing | None, api: Api
) -> None:
    thought = "abcdefgh" if parsing else ""
    prompt = said((f"<think>{thought}</think>" if parsing else "") + TEXT, group=group)
    asked = {"parsing": parsing, "stop": ("end",), "api": api}
    for profile, counting in ((Profile.OPENAI, True), (Profile.DENGLIN, False)):
        details = Details(continuous_usage=counting, profile=profile)
        reply = await answer(engines, session, ask(engines, model, prompt, details=details, **asked))
        seen = [payload["usage"] for payload in reply.payloads if "usage" in payload]
        told = [usage["completion_tokens"] for usage in seen]
        assert told == sorted(told)
        assert told[-1] == reply.usage["completion_tokens"] > len(TEXT.encode()) - len(" end.")
        if parsing is not None:
            thoughts_told = [usage["completion_tokens_details"]["reasoning_tokens"] for usage in seen]
            assert thoughts_told == sorted(thoughts_told)
            assert thoughts_told[-1] == reply.usage["reasoning_tokens"] >= len(thought)
