"""Pure: from the numbers of a request's rows to the bytes of its answer."""

import base64
from collections.abc import Sequence

import numpy as np
import orjson

from conch_contracts.messages.encoding import EncodeRequest, Task
from conch_embed_worker import pooling
from conch_embed_worker.batch_tensors import Numbers
from conch_kit.errors import InvalidRequest, UpstreamError

MAX_POOLED_BYTES = 64 * 1024 * 1024
"""Of the vectors of all tokens as they are written."""
_IN_A_LIST = 17
"""Bytes that a number takes at most, its comma included."""
_IN_BASE64 = 16 / 3


def answer(request: EncodeRequest, results: Sequence[Numbers]) -> bytes:
    """Return the answer; raises InvalidRequest and UpstreamError for numbers that cannot be what was asked for."""
    match request.task:
        case Task.EMBED:
            vectors = [_finish(request, _shortened(request, _finite(result))) for result in results]
            return _vectors(request, vectors, "embedding", "embedding")
        case Task.POOL:
            if results[0].ndim != 2:
                raise UpstreamError("The model gives the vector of a text, not one for each token.")
            results = [_shortened(request, result) for result in results]
            check_pooled(request, sum(result.size for result in results))
            tokens = [_finish(request, _finite(result)) for result in results]
            return _vectors(request, tokens, "pooling", "data")
        case Task.SIMILARITY:
            cosines = pooling.similarities(_together(results), request.firsts)
            return _rows(cosines[:, np.newaxis])
        case Task.SCORE:
            if results[0].ndim != 1:
                raise UpstreamError("The model gives a vector for each token, not the scores of a text.")
            return _rows(pooling.activate(_together(results), request.activation))


def _together(results: Sequence[Numbers]) -> Numbers:
    return _finite(results[0][np.newaxis] if len(results) == 1 else np.array(results))


def _finite(numbers: Numbers) -> Numbers:
    if not pooling.finite(numbers):
        raise UpstreamError("The model's answer holds numbers that are not finite.")
    return numbers


def check_pooled(request: EncodeRequest, numbers: int) -> None:
    """Raise InvalidRequest where the vectors of all tokens are so many numbers that their answer is too long."""
    most = int(MAX_POOLED_BYTES / (_IN_BASE64 if request.base64 else _IN_A_LIST))
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


def _vectors(request: EncodeRequest, vectors: Sequence[Numbers], kind: str, key: str) -> bytes:
    data = [
        {"object": kind, "index": index, key: _base64(vector) if request.base64 else np.ascontiguousarray(vector)}
        for index, vector in enumerate(vectors)
    ]
    return orjson.dumps({"data": data}, option=orjson.OPT_SERIALIZE_NUMPY)


def _rows(numbers: Numbers) -> bytes:
    return orjson.dumps({"rows": np.ascontiguousarray(numbers)}, option=orjson.OPT_SERIALIZE_NUMPY)


def _base64(vector: Numbers) -> str:
    return base64.b64encode(vector.tobytes()).decode()
