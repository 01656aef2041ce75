"""Triton over HTTP, for servers of which nothing else is known: KServe v2 with binary tensors."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import Any, Self
from urllib.parse import quote

import aiohttp
import orjson
from google.protobuf.json_format import ParseDict, ParseError
from tritonclient.grpc.model_config_pb2 import ModelConfig

from conch_contracts.names import EngineAddress
from conch_kit.triton.checked_addresses import without_name
from conch_kit.triton.errors import EngineTimeout, EngineUnavailable, MalformedResponse, from_message
from conch_kit.triton.message_limits import MAX_CONTROL_BYTES, MAX_MESSAGE_BYTES

_HEADER_LENGTH = "Inference-Header-Content-Length"
_CONFIG_TIMEOUT_S = 5.0

Tensor = tuple[str, str, tuple[int, ...], bytes]


class TritonHttp:
    """All HTTP connections of this process to engines."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), trust_env=False, auto_decompress=False
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def model_config(self, address: EngineAddress, model: str) -> ModelConfig:
        """Read a model's config; raises EngineError."""
        _, body = await self._ask("GET", address, f"/v2/models/{quote(model)}/config", timeout_s=_CONFIG_TIMEOUT_S)
        try:
            config: ModelConfig = ParseDict(_object(body), ModelConfig(), ignore_unknown_fields=True)
        except ParseError as error:
            raise MalformedResponse(f"The engine's config of {model} cannot be read: {error}") from error
        return config

    async def infer(
        self, address: EngineAddress, model: str, tensors: Sequence[Tensor], output: str, *, timeout_s: float
    ) -> tuple[str, tuple[int, ...], bytes]:
        """Return an output's datatype, shape and packed elements; raises EngineError."""
        head = orjson.dumps(
            {
                "inputs": [
                    {"name": name, "shape": shape, "datatype": kind, "parameters": {"binary_data_size": len(raw)}}
                    for name, kind, shape, raw in tensors
                ],
                "outputs": [{"name": output, "parameters": {"binary_data": True}}],
            }
        )
        body = b"".join((head, *(raw for *_, raw in tensors)))
        path = f"/v2/models/{quote(model)}/infer"
        headers = {_HEADER_LENGTH: str(len(head)), "content-type": "application/octet-stream"}
        length, answer = await self._ask("POST", address, path, timeout_s=timeout_s, headers=headers, data=body)
        found = _object(answer[:length])
        try:
            one = next(each for each in found["outputs"] if each["name"] == output)
            return str(one["datatype"]), tuple(map(int, one["shape"])), answer[length:]
        except (LookupError, StopIteration, TypeError, ValueError) as error:
            raise MalformedResponse(f"The engine's response has no output {output}.") from error

    async def check_protocol(self, address: EngineAddress) -> None:
        """Return when a server of this protocol answers there; raises EngineError."""
        _, body = await self._ask("GET", address, "/v2", timeout_s=_CONFIG_TIMEOUT_S)
        found = _object(body)
        if not (isinstance(found.get("name"), str) and isinstance(found.get("extensions"), list)):
            raise MalformedResponse("What answers is no server of the KServe protocol.")

    async def _ask(
        self,
        method: str,
        address: EngineAddress,
        path: str,
        *,
        timeout_s: float,
        headers: Mapping[str, str] = MappingProxyType({}),
        data: bytes | None = None,
    ) -> tuple[int, bytes]:
        """Return the length of the answer's JSON, and the answer."""
        assert self._session is not None
        target, name = without_name(address)
        url = f"{target}{path}"
        if name is not None:
            headers = {**headers, "host": name}
        headers = {**headers, "accept-encoding": "identity"}  # nothing may grow when it is unpacked
        timeout = aiohttp.ClientTimeout(total=timeout_s, connect=2.0)
        try:
            async with self._session.request(
                method, url, timeout=timeout, allow_redirects=False, headers=headers, data=data
            ) as answer:
                packed = answer.status == 200 and method == "POST"
                body = await _read(answer, MAX_MESSAGE_BYTES if packed else MAX_CONTROL_BYTES)
                length = int(answer.headers.get(_HEADER_LENGTH, len(body)))
        except aiohttp.ConnectionTimeoutError as error:
            raise EngineUnavailable(f"Nothing answers at {url}.") from error
        except TimeoutError as error:
            raise EngineTimeout(f"The engine did not answer within {timeout_s:g} s.", first=True) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise EngineUnavailable(f"{url} gave no answer: {error}") from error
        if answer.status != 200:
            raise from_message(_reason(body) or f"HTTP status {answer.status}", started=False)
        if not 0 <= length <= len(body):
            raise MalformedResponse(f"The engine's answer has {len(body)} bytes, and its head says {length}.")
        return length, body


async def _read(answer: aiohttp.ClientResponse, most: int) -> bytes:
    """Return the body; raises MalformedResponse for one that no engine sends, before it fills the memory."""
    body = bytearray()
    async for piece in answer.content.iter_any():
        body += piece
        if len(body) > most:
            raise MalformedResponse(f"The engine's answer is larger than {most >> 20} MiB.")
    return bytes(body)


def _object(body: bytes) -> dict[str, Any]:
    if len(body) > MAX_CONTROL_BYTES:
        raise MalformedResponse(f"The JSON of the engine's answer is larger than {MAX_CONTROL_BYTES >> 20} MiB.")
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise MalformedResponse("The engine's answer is no JSON.") from error
    if not isinstance(found, dict):
        raise MalformedResponse("The engine's answer is no JSON object.")
    return found


def _reason(body: bytes) -> str:
    try:
        return str(_object(body).get("error", ""))
    except MalformedResponse:
        return ""
