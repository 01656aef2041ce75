"""Pure: from the numbers of a request's rows to the bytes of its answer."""

from collections.abc import Sequence

import numpy as np
import orjson

from conch_contracts.messages.encoding import EncodeRequest, Task
from conch_contracts.openai.encoders.vectors import VectorType
from conch_embed_worker import pooling, vector_forms
from conch_embed_worker.batch_tensors import Numbers
from conch_kit.errors import InvalidRequest, UpstreamError

MAX_POOLED_BYTES = 64 * 1024 * 1024
"""Of the vectors of all tokens as they are written."""
MAX_TYPED_BYTES = 128 * 1024 * 1024
"""Of vectors in all forms that were asked for."""
_IN_A_LIST = 17
"""Bytes that a number takes at most, its comma included."""
_IN_BASE64 = 4 / 3
"""Bytes that a packed byte takes."""
_TYPED: dict[VectorType, float] = {
    "float": _IN_A_LIST,
    "base64": 4 * _IN_BASE64,
    "int8": 5,
    "uint8": 4,
    "binary": 5 / 8,
    "ubinary": 4 / 8,
}
"""Bytes that a number takes at most in each form."""


def answer(request: EncodeRequest, results: Sequence[Numbers]) -> bytes:
    """Return the answer; raises InvalidRequest and UpstreamError for numbers that cannot be what was asked for."""
    match request.task:
        case Task.EMBED:
            vectors = [_finish(request, _shortened(request, _finite(result))) for result in results]
            return _typed(request, vectors) if request.types else _vectors(request, vectors)
        case Task.POOL:
            if results[0].ndim != 2:
                raise InvalidRequest(
                    "This model gives numbers for a whole text, and none for each token. "
                    "Please use the task 'embed' of an embedding model, or 'classify' of a classifier.",
                    param="task",
                    code="unsupported_parameter",
                )
            results = [_shortened(request, result) for result in results]
            check_pooled(request, sum(result.size for result in results))
            tokens = [pooling.activate(_finish(request, _finite(result)), request.activation) for result in results]
            return _vectors(request, tokens)
        case Task.SIMILARITY:
            cosines = pooling.similarities(_together(results), request.firsts)
            return _rows(cosines[:, np.newaxis])
        case Task.SCORE:
            if results[0].ndim != 1:
                if request.pooled:
                    raise InvalidRequest(
                        "This model gives numbers for each token, and none for a whole text. "
                        "Please use the task 'token_classify'.",
                        param="task",
                        code="unsupported_parameter",
                    )
                raise UpstreamError("The model gives a vector for each token, not the scores of a text.")
            scores = pooling.activate(_together(results), request.activation)
            return _vectors(request, list(scores)) if request.pooled else _rows(scores)


def _together(results: Sequence[Numbers]) -> Numbers:
    return _finite(results[0][np.newaxis] if len(results) == 1 else np.array(results))


def _finite(numbers: Numbers) -> Numbers:
    if not pooling.finite(numbers):
        raise UpstreamError("The model's answer holds numbers that are not finite.")
    return numbers


def check_pooled(request: EncodeRequest, numbers: int) -> None:
    """Raise InvalidRequest where the vectors of all tokens are so many numbers that their answer is too long."""
    in_base64 = vector_forms.BYTES_OF_NUMBER[request.dtype] * _IN_BASE64
    most = int(MAX_POOLED_BYTES / (in_base64 if request.base64 else _IN_A_LIST))
    if numbers > most:
        raise InvalidRequest(
            f"Expected at most {most} numbers in one answer, found {numbers}: the tokens' vectors together. "
            "Please send fewer or shorter texts.",
            param="input",
            code="too_complex",
        )


def _shortened(request: EncodeRequest, vectors: Numbers) -> Numbers:
    size = vectors.shape[-1]
    if request.dimensions is not None and request.dimensions > size:
        raise InvalidRequest(
            f"This model's embeddings have {size} dimensions.", param="dimensions", code="invalid_value"
        )
    return pooling.shorten(vectors, request.dimensions)


def _finish(request: EncodeRequest, vectors: Numbers) -> Numbers:
    return pooling.normalize(vectors) if request.normalize else vectors


def _vectors(request: EncodeRequest, vectors: Sequence[Numbers]) -> bytes:
    pooled = request.pooled or request.task is Task.POOL
    kind, key = ("pooling", "data") if pooled else ("embedding", "embedding")
    data = [
        {"object": kind, "index": index, **_shape(request, vector), key: _written(request, vector)}
        for index, vector in enumerate(vectors)
    ]
    return orjson.dumps({"data": data}, option=orjson.OPT_SERIALIZE_NUMPY)


def _written(request: EncodeRequest, vector: Numbers) -> str | Numbers:
    if request.base64:
        return vector_forms.packed_text(vector, request.dtype, big_endian=request.big_endian)
    return np.ascontiguousarray(vector)


def _shape(request: EncodeRequest, vector: Numbers) -> dict[str, object]:
    return {"shape": vector.shape} if request.shapes else {}


def _typed(request: EncodeRequest, vectors: Sequence[Numbers]) -> bytes:
    numbers = sum(vector.size for vector in vectors)
    if numbers * sum(_TYPED[kind] for kind in request.types) > MAX_TYPED_BYTES:
        raise InvalidRequest(
            f"{numbers} numbers in {len(request.types)} forms are too many for one answer. "
            "Please ask for fewer forms, or send fewer texts.",
            param="embedding_types",
            code="too_complex",
        )
    forms = {kind: vector_forms.typed(vectors, kind) for kind in request.types}
    return orjson.dumps({"embeddings": forms}, option=orjson.OPT_SERIALIZE_NUMPY)


def _rows(numbers: Numbers) -> bytes:
    return orjson.dumps({"rows": np.ascontiguousarray(numbers)}, option=orjson.OPT_SERIALIZE_NUMPY)
