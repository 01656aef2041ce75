"""Pure: from a worker's answer to the body that the client gets.

Vectors pass as the worker wrote them, behind the fields that the gateway adds. Scores become the results of each
endpoint.
"""

import base64
import json
from collections.abc import Sequence
from typing import Any

import orjson

from conch_contracts.openai.encoders.cohere import CohereEmbedRequest
from conch_contracts.openai.encoders.embeddings import InputFields
from conch_contracts.openai.encoders.rerank import RerankRequest
from conch_contracts.openai.sampling import is_on
from conch_contracts.records import Route
from conch_gateway.encoders import cohere_rows
from conch_gateway.encoders.request_rows import BodyMaker, EncodedBody, Head, documents, is_binary
from conch_gateway.encoders.row_contents import Content
from conch_kit.errors import UpstreamError

DOCUMENTS_PER_SEARCH = 100
"""How many documents Cohere counts as one search."""


BYTES = (b"content-type", b"application/octet-stream")
METADATA = b"metadata"
"""The header that says what the bytes are, as vLLM calls it."""


def embedded(request: InputFields) -> BodyMaker:
    """Return what makes the body of an embeddings answer."""
    if is_binary(request):
        return _packed(request, "embedding")
    return lambda head, answer: _before({**_named(head), "usage": _usage(head)}, answer)


def pooled(request: InputFields) -> BodyMaker:
    """Return what makes the body of a pooling answer."""
    if is_binary(request):
        return _packed(request, "data")
    return lambda head, answer: _before({**_named(head), "usage": _usage(head)}, answer)


def embedded_by_type(request: CohereEmbedRequest) -> BodyMaker:
    """Return what makes the body of an answer of Cohere's kind."""

    def body(head: Head, answer: bytes) -> EncodedBody:
        fields: dict[str, object] = {
            "id": head.id,
            "response_type": "embeddings_by_type",
            "texts": cohere_rows.texts(request),
            "meta": {"api_version": {"version": "2"}, "billed_units": {"input_tokens": head.tokens}},
        }
        return _before(fields, answer, begins=b'{"embeddings":')

    return body


def scores(head: Head, answer: bytes) -> EncodedBody:
    """Return the body of a score answer."""
    data = [{"index": index, "object": "score", "score": row[-1]} for index, row in enumerate(_rows(answer))]
    return EncodedBody(orjson.dumps({**_named(head), "data": data, "usage": _usage(head)}))


def classes(route: Route) -> BodyMaker:
    """Return what makes the body of a classification, with the model's labels."""

    def body(head: Head, answer: bytes) -> EncodedBody:
        data = [_classification(index, row, route.encoder.labels) for index, row in enumerate(_rows(answer))]
        return EncodedBody(orjson.dumps({**_named(head), "data": data, "usage": _usage(head)}))

    return body


def ranking(request: RerankRequest, *, with_documents: bool) -> BodyMaker:
    """Return what makes the body of a reranking; with or without the documents where the request does not say."""
    given = documents(request)
    shown = with_documents if request.return_documents is None else is_on(request.return_documents)
    top = int(request.top_n or 0)

    def body(head: Head, answer: bytes) -> EncodedBody:
        ranked = sorted(enumerate(row[-1] for row in _rows(answer)), key=lambda item: (-item[1], item[0]))
        kept = ranked[:top] if top > 0 else ranked
        results = [_result(index, score, given[index] if shown else None) for index, score in kept]
        data = [
            {"object": "rerank", **result, **(_text(given[index]) if shown else {})}
            for result, (index, _) in zip(results, kept, strict=True)
        ]
        meta = {
            "api_version": {"version": "2"},
            "billed_units": {"search_units": -(-len(given) // DOCUMENTS_PER_SEARCH)},
            "tokens": {"input_tokens": head.tokens},
        }
        fields = {"data": data, "results": results, "meta": meta, "usage": _usage(head)}
        return EncodedBody(orjson.dumps({**_named(head), **fields}))

    return body


def _result(index: int, score: float, document: Content | None) -> dict[str, object]:
    result: dict[str, object] = {"index": index, "relevance_score": score}
    if document is None:
        return result
    if isinstance(document, str):
        return {**result, "document": _text(document)}
    return {**result, "document": {"multi_modal": [document.part.model_dump(mode="json", exclude_none=True)]}}


def _text(document: Content) -> dict[str, object]:
    """Return the field with a document's text; none for a picture."""
    return {"text": document} if isinstance(document, str) else {}


def _classification(index: int, row: Sequence[float], labels: Sequence[str]) -> dict[str, object]:
    likeliest = max(range(len(row)), key=lambda number: row[number])
    label = labels[likeliest] if likeliest < len(labels) else f"LABEL_{likeliest}"
    return {"index": index, "label": label, "probs": list(row), "num_classes": len(row)}


def _named(head: Head) -> dict[str, object]:
    return {"id": head.id, "object": "list", "created": head.created, "model": head.model}


def _usage(head: Head) -> dict[str, object]:
    tokens = head.tokens
    return {"prompt_tokens": tokens, "total_tokens": tokens, "completion_tokens": 0, "prompt_tokens_details": None}


def _before(fields: dict[str, object], answer: bytes, begins: bytes = b'{"data":') -> EncodedBody:
    """Put these fields in front of those of a JSON object."""
    if not answer.startswith(begins):
        raise UpstreamError("The worker's answer is not a list of vectors.")
    return EncodedBody(b"".join((orjson.dumps(fields)[:-1], b",", memoryview(answer)[1:])))


def _packed(request: InputFields, key: str) -> BodyMaker:
    """Return what makes a body of all vectors' bytes, one after the other."""
    kind = {"embed_dtype": request.embed_dtype or "float32", "endianness": request.endianness or "native"}

    def body(head: Head, answer: bytes) -> EncodedBody:
        parts, told = [], []
        start = 0
        for item in _items(answer):
            part = base64.b64decode(item[key])
            parts.append(part)
            end = start + len(part)
            told.append({"index": item["index"], **kind, "start": start, "end": end, "shape": item["shape"]})
            start = end
        if request.encoding_format == "bytes_only":
            return EncodedBody(b"".join(parts), (BYTES,))
        usage = {"prompt_tokens": head.tokens, "total_tokens": head.tokens}
        metadata = {"id": head.id, "created": head.created, "model": head.model, "data": told, "usage": usage}
        return EncodedBody(b"".join(parts), (BYTES, (METADATA, json.dumps(metadata).encode())))

    return body


def _items(answer: bytes) -> list[dict[str, Any]]:
    try:
        items: list[dict[str, Any]] = orjson.loads(answer)["data"]
        complete = all("shape" in item for item in items)
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise UpstreamError("The worker's answer is not a list of vectors.") from error
    if not complete:
        raise UpstreamError("The worker's answer does not say what its vectors look like.")
    return items


def _rows(answer: bytes) -> list[list[float]]:
    try:
        rows: list[list[float]] = orjson.loads(answer)["rows"]
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise UpstreamError("The worker's answer is not a list of scores.") from error
    return rows
