"""The endpoints of encoders."""

from fastapi import FastAPI

from conch_contracts.openai.encoders.cohere import CohereEmbedAnswer, CohereEmbedRequest
from conch_contracts.openai.encoders.embeddings import EmbeddingList, EmbeddingRequest, PooledList, PoolingRequest
from conch_contracts.openai.encoders.rerank import RerankAnswer, RerankRequest
from conch_contracts.openai.encoders.scores import ClassificationList, ClassifyRequest, ScoreList, ScoreRequest
from conch_contracts.openai.tokenizing import DetokenizeAnswer, DetokenizeRequest, TokenizeAnswer, TokenizeRequest
from conch_gateway.encoders.tokenize_endpoints import DETOKENIZE_PATHS, TOKENIZE_PATHS
from generate.openapi.failures import INFERENCE, OF_TEXT, errors


def describe_encoders(app: FastAPI) -> None:
    """Add the paths to the document."""

    async def embeddings(request: EmbeddingRequest) -> None:
        """Return a vector for each input."""

    async def embed(request: CohereEmbedRequest) -> None:
        """Return a vector for each text, in as many forms as are asked for."""

    async def rerank(request: RerankRequest) -> None:
        """Order documents by their relevance to a query."""

    async def score(request: ScoreRequest) -> None:
        """Return the score of each pair of texts."""

    async def classify(request: ClassifyRequest) -> None:
        """Return the likeliest class of each text, and the probabilities of all."""

    async def pooling(request: PoolingRequest) -> None:
        """Return a vector, or the numbers of classes, for each token of each input or for each input."""

    async def tokenize(request: TokenizeRequest) -> None:
        """Return the token ids of a text or a conversation."""

    async def detokenize(request: DetokenizeRequest) -> None:
        """Return the text of token ids."""

    described = (
        (embeddings, EmbeddingList, ("/v1/embeddings",), INFERENCE),
        (embed, CohereEmbedAnswer, ("/v2/embed",), INFERENCE),
        (rerank, RerankAnswer, ("/v1/rerank", "/rerank", "/v2/rerank"), INFERENCE),
        (score, ScoreList, ("/v1/score", "/score"), INFERENCE),
        (classify, ClassificationList, ("/v1/classify", "/classify"), OF_TEXT),
        (pooling, PooledList, ("/v1/pooling", "/pooling"), INFERENCE),
        (tokenize, TokenizeAnswer, TOKENIZE_PATHS, INFERENCE),
        (detokenize, DetokenizeAnswer, DETOKENIZE_PATHS, OF_TEXT),
    )
    for handler, answer, paths, statuses in described:
        for path in paths:
            app.post(path, response_model=answer, responses=errors(statuses), tags=["encoders"])(handler)
