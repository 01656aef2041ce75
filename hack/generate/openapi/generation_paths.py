"""The generating endpoints."""

from fastapi import FastAPI

from conch_contracts.openai.chat import ChatCompletion, ChatCompletionRequest
from conch_contracts.openai.completions import Completion, CompletionRequest
from conch_contracts.openai.encoders.embeddings import EmbeddingList, EmbeddingRequest
from conch_contracts.openai.encoders.rerank import RerankAnswer, RerankRequest
from conch_contracts.openai.encoders.scores import ClassificationList, ClassifyRequest, ScoreList, ScoreRequest
from conch_contracts.openai.responses.response import Response, ResponsesRequest
from conch_gateway.app.invocations import PATH as INVOCATIONS_PATH
from generate.openapi.failures import INFERENCE, OF_TEXT, errors
from generate.openapi.streams import CHUNKS, CHUNKS_OR_TEXTS, EVENTS, TEXTS


def describe_generation(app: FastAPI) -> None:
    """Add the generating endpoints."""

    async def chat(request: ChatCompletionRequest) -> None:
        """Answer a conversation."""

    async def completions(request: CompletionRequest) -> None:
        """Continue a text."""

    async def responses(request: ResponsesRequest) -> None:
        """Answer a conversation of items, and keep the answer unless the request says otherwise."""

    described = (
        ("/v1/chat/completions", chat, ChatCompletion, CHUNKS, INFERENCE),
        ("/v1/completions", completions, Completion, TEXTS, OF_TEXT),
        ("/v1/responses", responses, Response, EVENTS, INFERENCE),
    )
    for path, handler, answer, stream, statuses in described:
        kinds = {**stream.responses(), **errors(statuses)}
        app.post(path, response_model=answer, responses=kinds, tags=["generation"])(handler)


def describe_invocations(app: FastAPI) -> None:
    """Add the path that serves all."""

    async def invocations(
        request: ChatCompletionRequest
        | CompletionRequest
        | RerankRequest
        | ScoreRequest
        | EmbeddingRequest
        | ClassifyRequest,
    ) -> None:
        """Do what the body asks for: by its fields a chat, a completion, a ranking, scores, embeddings or classes."""

    answers = ChatCompletion | Completion | RerankAnswer | ScoreList | EmbeddingList | ClassificationList
    kinds = {**CHUNKS_OR_TEXTS.responses(), **errors()}
    app.post(INVOCATIONS_PATH, response_model=answers, responses=kinds, tags=["generation"])(invocations)
