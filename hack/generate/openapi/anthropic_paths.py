"""The endpoints of Anthropic's Messages API."""

from fastapi import FastAPI

from conch_contracts.anthropic.answer import AnswerMessage, PromptTokens
from conch_contracts.anthropic.request import CountTokensRequest, MessagesRequest
from conch_gateway.anthropic.handler import COUNT_PATH, PATH
from generate.openapi.failures import anthropic_errors
from generate.openapi.streams import MESSAGE_EVENTS


def describe_messages(app: FastAPI) -> None:
    """Add the paths to the document."""

    async def messages(request: MessagesRequest) -> None:
        """Answer a conversation, as Anthropic's clients ask for it."""

    async def count_tokens(request: CountTokensRequest) -> None:
        """Count what the model would read of such a conversation."""

    answers = {**MESSAGE_EVENTS.responses(), **anthropic_errors()}
    app.post(PATH, response_model=AnswerMessage, responses=answers, tags=["messages"])(messages)
    app.post(COUNT_PATH, response_model=PromptTokens, responses=anthropic_errors(), tags=["messages"])(count_tokens)
