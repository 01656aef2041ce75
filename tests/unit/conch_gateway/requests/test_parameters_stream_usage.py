"""Where a stream tells its usage: what the request asks for, and what the deployment says."""

import pytest

from conch_contracts.messages.generation import Details
from conch_contracts.openai.chat import ChatCompletionRequest
from conch_contracts.records import Profile, StreamUsage
from conch_gateway.requests import parameters
from testkit.gateway.fakes import route


def chat(**fields):
    return ChatCompletionRequest.model_validate({"messages": [{"role": "user", "content": "hi"}], **fields})


@pytest.mark.parametrize(
    ("asked", "told", "counting"),
    [
        ({"continuous_usage_stats": True}, None, True),
        ({"continuous_usage_stats": True, "include_usage": None}, None, True),
        ({"continuous_usage_stats": True, "include_usage": True}, None, True),
        ({"continuous_usage_stats": True, "include_usage": False}, None, False),
        ({"continuous_usage_stats": True, "include_usage": False}, StreamUsage.FINAL_CHUNK, False),
        ({"continuous_usage_stats": True, "include_usage": False}, StreamUsage.ALWAYS, True),
        ({"continuous_usage_stats": False, "include_usage": True}, None, False),
        ({"include_usage": True}, None, False),
    ],
)
def test_who_wants_no_usage_gets_it_in_no_frame(asked, told, counting):
    request = chat(stream=True, stream_options=asked)
    made = parameters.details(request, parameters.chat_shape(request), route(stream_usage=told))
    assert (made or Details()).continuous_usage is counting


STREAMED = {"stream": True}
ASKED = {**STREAMED, "stream_options": {"include_usage": True}}


@pytest.mark.parametrize(
    ("told", "fields", "last_frame", "details"),
    [
        (None, STREAMED, False, None),
        (None, ASKED, True, None),
        (StreamUsage.ASKED, STREAMED, False, None),
        (StreamUsage.ALWAYS, STREAMED, True, None),
        (
            StreamUsage.ALWAYS,
            {**STREAMED, "stream_options": {"include_usage": False}},
            True,
            Details(final_usage=False),
        ),
        (StreamUsage.FINAL_CHUNK, STREAMED, False, Details(final_usage=True)),
        (StreamUsage.FINAL_CHUNK, ASKED, True, Details(final_usage=True)),
        (StreamUsage.FINAL_CHUNK, {}, False, None),
    ],
)
def test_the_deployment_says_where_streams_tell_their_usage(told, fields, last_frame, details):
    request, model = chat(**fields), route(stream_usage=told)
    assert parameters.includes_usage(request, model) is last_frame
    made = parameters.details(request, parameters.chat_shape(request), model)
    assert (made or Details()) == (details or Details())


def test_what_the_deployment_says_of_usage_wins_over_its_profile():
    model = route(profile=Profile.DENGLIN, stream_usage=StreamUsage.ASKED)
    made = parameters.details(chat(**STREAMED), parameters.chat_shape(chat(**STREAMED)), model)
    assert made == Details(profile=Profile.DENGLIN, final_usage=False)
