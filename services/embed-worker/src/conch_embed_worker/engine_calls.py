"""Calls an engine with one batch, of texts or of pictures, or one text with pictures in it.

Over gRPC, or over HTTP where its address is an HTTP one.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from tritonclient.grpc.model_config_pb2 import ModelConfig
from tritonclient.grpc.service_pb2 import ModelInferRequest, ModelInferResponse

from conch_contracts.messages.encoding import Row
from conch_contracts.names import EngineAddress
from conch_embed_worker.batch_tensors import Numbers, pack, pack_pictures, pack_shown, unpack
from conch_kit.triton.checked_addresses import HTTP
from conch_kit.triton.encoder_tensors import EncoderTensors
from conch_kit.triton.http_client import TritonHttp
from conch_kit.triton.tensors import Outputs, add_raw, new_request


class BatchTriton(Protocol):
    """What this module needs of a gRPC client."""

    async def infer(
        self, address: EngineAddress, request: ModelInferRequest, *, timeout_s: float
    ) -> ModelInferResponse:
        """Call a model that answers once."""
        ...

    async def model_config(self, address: EngineAddress, model: str) -> ModelConfig:
        """Read a model's config."""
        ...


class EncoderCalls:
    """Calls to all encoders, over either protocol."""

    def __init__(self, grpc: BatchTriton, http: TritonHttp) -> None:
        self._grpc = grpc
        self._http = http

    async def model_config(self, address: EngineAddress, model: str) -> ModelConfig:
        """Read a model's config; raises EngineError."""
        if address.startswith(HTTP):
            return await self._http.model_config(address, model)
        return await self._grpc.model_config(address, model)

    async def compute(
        self, address: EngineAddress, model: str, rows: Sequence[Row], encoder: EncoderTensors, *, timeout_s: float
    ) -> Numbers:
        """Return the model's output for a batch; raises EngineError."""
        if rows[0].picture is not None:
            tensors = await asyncio.to_thread(pack_pictures, rows, encoder)
        elif rows[0].pictures:
            tensors = [*pack(rows, encoder), *pack_shown(rows[0])]
        else:
            tensors = pack(rows, encoder)
        lengths = [row.tokens for row in rows]
        if address.startswith(HTTP):
            output = await self._http.infer(address, model, tensors, encoder.output, timeout_s=timeout_s)
            return unpack(*output, lengths)
        request = new_request(model, "")
        for tensor in tensors:
            add_raw(request, *tensor)
        request.outputs.add(name=encoder.output)
        answer = await self._grpc.infer(address, request, timeout_s=timeout_s)
        return unpack(*Outputs(answer).raw(encoder.output), lengths)
