"""Requests that schemathesis makes of our own OpenAPI document; `tests/e2e/test_clients.py` runs this.

Every answer must be one that the document describes, status, type and body, and never a server error. What is derived
from the document is the same in every run. Only the model and the length of an answer are set by hand: a made-up name
would test nothing but 404s. A request that fits the schema may still be refused, since models differ in what they can
do, so that one check is off.
"""

import os

import schemathesis

ROOT_URL = os.environ["OPENAI_BASE_URL"].removesuffix("/v1")  # noqa: TID251
MODELS = {
    "embeddings": "minilm",
    "pooling": "minilm",
    "rerank": "tiny-reranker",
    "score": "tiny-reranker",
    "classify": "tiny-classifier",
}
LIMITS = {
    "/v1/chat/completions": "max_completion_tokens",
    "/v1/completions": "max_tokens",
    "/v1/messages": "max_tokens",
}
LIMIT = 4
LONGEST_NAME = 10_240
REFUSALS = ["400", "404", "405", "413", "415"]
"""What a request that breaks the schema may get: a list that is too long makes too large a body first."""
CONFIG = schemathesis.Config.from_dict(
    {
        "generation": {"deterministic": True, "max-examples": 5, "mode": "all", "no-shrink": True},
        "suppress-health-check": ["all"],
        "checks": {
            "positive_data_acceptance": {"enabled": False},
            "negative_data_rejection": {"expected-statuses": REFUSALS},
        },
    }
)

described = schemathesis.openapi.from_url(f"{ROOT_URL}/openapi.json", config=CONFIG)
# Other paths of the same endpoints would only cost time.
schema = described.exclude(path_regex=r"^/(v2/rerank|rerank|score|classify|pooling|tokenize|detokenize|invocations)$")


@schema.parametrize()
def test_every_answer_is_one_that_the_document_describes(case: schemathesis.Case) -> None:
    if isinstance(case.body, dict):
        _make_likely(case.body, case.path)
    case.call_and_validate(timeout=240)


def _make_likely(body: dict[str, object], path: str) -> None:
    """Let the request mean a model that exists, and make its answer short; what is wrong with it stays wrong."""
    if body.get("model") is None or (isinstance(body["model"], str) and len(body["model"]) <= LONGEST_NAME):
        body["model"] = MODELS.get(path.rpartition("/")[2], "tiny-chat")
    limit = LIMITS.get(path, "max_output_tokens" if path == "/v1/responses" else None)
    if limit is not None and isinstance(body.get(limit), int | None):
        body[limit] = LIMIT
