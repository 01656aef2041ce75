"""Encoders of texts and of pictures in a real tritonserver, asked for tensors."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from conch_contracts.dialects import encoder as dialect
from conch_contracts.names import EngineAddress
from conch_kit.triton.client import TritonClient
from conch_kit.triton.errors import EngineRejected
from conch_kit.triton.tensors import Outputs, add_raw, new_request
from testkit.models import clip_golden
from testkit.servers.triton import RunningTriton

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def _ask(
    client: TritonClient, server: RunningTriton, model: str, output: str, **tensors: NDArray[np.generic]
) -> NDArray[np.float32]:
    request = new_request(model, "")
    for name, value in tensors.items():
        add_raw(request, name, {"int64": "INT64", "float32": "FP32"}[value.dtype.name], value.shape, value.tobytes())
    request.outputs.add(name=output)
    answer = await client.infer(EngineAddress(server.grpc), request, timeout_s=30)
    _, shape, raw = Outputs(answer).raw(output)
    return np.frombuffer(raw, np.float32).reshape(shape)


def _rows(rows: Sequence[Sequence[int]]) -> dict[str, NDArray[np.int64]]:
    width = max(map(len, rows))
    ids = np.array([[*row, *[0] * (width - len(row))] for row in rows], np.int64)
    return {dialect.INPUT_IDS: ids, dialect.ATTENTION_MASK: np.ones_like(ids)}


async def test_a_model_of_texts_and_pictures_gives_the_vectors_of_its_reference(
    client: TritonClient, server: RunningTriton
) -> None:
    golden = clip_golden.load()
    texts = await _ask(client, server, "clip", dialect.TEXT_EMBEDS, **_rows([each.ids for each in golden.texts]))
    np.testing.assert_allclose(clip_golden.normalised(texts), golden.text_vectors, atol=1e-4)
    values = np.stack([clip_golden.as_values(each.pixels) for each in golden.pictures])
    seen = await _ask(client, server, "clip", dialect.IMAGE_EMBEDS, pixel_values=values)
    np.testing.assert_allclose(
        clip_golden.normalised(seen), np.stack([each.vector for each in golden.pictures]), atol=1e-4
    )


async def test_what_a_model_cannot_take_names_the_tensor(client: TritonClient, server: RunningTriton) -> None:
    ids, values = _rows([[1, 2]]), np.zeros((1, 3, 64, 64), np.float32)
    with pytest.raises(EngineRejected, match="INVALID: pixel_values: texts and pictures"):
        await _ask(client, server, "clip", dialect.TEXT_EMBEDS, **ids, pixel_values=values)
    with pytest.raises(EngineRejected, match="INVALID: pixel_values: each must be"):
        await _ask(client, server, "clip", dialect.IMAGE_EMBEDS, pixel_values=values[:, :, :32])
    with pytest.raises(EngineRejected, match="INVALID: input_ids: must hold"):
        await _ask(client, server, "classifier", dialect.LOGITS, pixel_values=values)
    with pytest.raises(EngineRejected, match="INVALID: pixel_values: this model sees no pictures"):
        await _ask(client, server, "classifier", dialect.LOGITS, **ids, pixel_values=values)
    assert (await _ask(client, server, "classifier", dialect.LOGITS, **ids)).shape[0] == 1
