"""Pure: from a worker's answer to the body that the client gets.

Vectors pass as the worker wrote them, behind the fields that the gateway adds. Scores become the results of each
endpoint.
"""

from collections.abc import Sequence

import orjson

from conch_contracts.openai.encoders.rerank import RerankRequest
from conch_contracts.openai.sampling import is_on
from conch_contracts.records import Route
from conch_gateway.encoders.request_rows import BodyMaker, Head, documents
from conch_kit.errors import UpstreamError

DOCUMENTS_PER_SEARCH = 100
"""How many documents Cohere counts as one search."""


def vectors(head: Head, answer: bytes) -> bytes:
    """Return the body of an embeddings answer."""
    return _before({"object": "list", "model": head.model, "usage": _usage(head)}, answer)


def pooled(head: Head, answer: bytes) -> bytes:
    """Return the body of a pooling answer."""
    return _before({**_named(head), "usage": _usage(head)}, answer)


def scores(head: Head, answer: bytes) -> bytes:
    """Return the body of a score answer."""
    data = [{"index": index, "object": "score", "score": row[-1]} for index, row in enumerate(_rows(answer))]
    return orjson.dumps({**_named(head), "data": data, "usage": _usage(head)})


def classes(route: Route) -> BodyMaker:
    """Return what makes the body of a classification, with the model's labels."""

    def body(head: Head, answer: bytes) -> bytes:
        data = [_classification(index, row, route.encoder.labels) for index, row in enumerate(_rows(answer))]
        usage = {**_usage(head), "prompt_tokens_details": None}
        return orjson.dumps({**_named(head), "data": data, "usage": usage})

    return body


def ranking(request: RerankRequest, *, with_documents: bool) -> BodyMaker:
    """Return what makes the body of a reranking; with or without the texts where the request does not say."""
    texts = documents(request)
    shown = with_documents if request.return_documents is None else is_on(request.return_documents)
    top = int(request.top_n or 0)

    def body(head: Head, answer: bytes) -> bytes:
        ranked = sorted(enumerate(row[-1] for row in _rows(answer)), key=lambda item: (-item[1], item[0]))
        kept = ranked[:top] if top > 0 else ranked
        results = [_result(index, score, texts[index] if shown else None) for index, score in kept]
        data = [
            {"object": "rerank", **result, **({"text": texts[index]} if shown else {})}
            for result, (index, _) in zip(results, kept, strict=True)
        ]
        meta = {
            "api_version": {"version": "2"},
            "billed_units": {"search_units": -(-len(texts) // DOCUMENTS_PER_SEARCH)},
            "tokens": {"input_tokens": head.tokens},
        }
        return orjson.dumps({**_named(head), "data": data, "results": results, "meta": meta, "usage": _usage(head)})

    return body


def _result(index: int, score: float, text: str | None) -> dict[str, object]:
    result: dict[str, object] = {"index": index, "relevance_score": score}
    return result if text is None else {**result, "document": {"text": text}}


def _classification(index: int, row: Sequence[float], labels: Sequence[str]) -> dict[str, object]:
    likeliest = max(range(len(row)), key=lambda number: row[number])
    label = labels[likeliest] if likeliest < len(labels) else f"LABEL_{likeliest}"
    return {"index": index, "label": label, "probs": list(row), "num_classes": len(row)}


def _named(head: Head) -> dict[str, object]:
    return {"id": head.id, "object": "list", "created": head.created, "model": head.model}


def _usage(head: Head) -> dict[str, object]:
    return {"prompt_tokens": head.tokens, "total_tokens": head.tokens, "completion_tokens": 0}


def _before(fields: dict[str, object], answer: bytes) -> bytes:
    """Put these fields in front of those of a JSON object."""
    if not answer.startswith(b'{"data":'):
        raise UpstreamError("The worker's answer is not a list of vectors.")
    return b"".join((orjson.dumps(fields)[:-1], b",", memoryview(answer)[1:]))


def _rows(answer: bytes) -> list[list[float]]:
    try:
        rows: list[list[float]] = orjson.loads(answer)["rows"]
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise UpstreamError("The worker's answer is not a list of scores.") from error
    return rows
