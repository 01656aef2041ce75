"""Generate messages for tests: small ones, changed by keyword."""

from collections.abc import Sequence
from typing import Any

from conch_contracts.messages.generation import (
    Api,
    BackendOptions,
    EngineTarget,
    GenerateRequest,
    PreparedPicture,
    PreparedPrompt,
    SamplingParameters,
)
from conch_contracts.names import Digest, EngineAddress
from conch_contracts.records import Dialect


def prompt(ids: Sequence[int] = (1, 2, 3), text: str = "abc") -> PreparedPrompt:
    """Return one prepared prompt."""
    return PreparedPrompt(ids=tuple(ids), text=text)


def picture(data: bytes = b"\1\2\3", **changes: Any) -> PreparedPicture:
    """Return a picture of one pixel, the ids of which begin the prompt."""
    fields: dict[str, Any] = {"height": 1, "width": 1, "start": 0, "length": 2, "digest": data.hex()}
    return PreparedPicture(data=data, **fields | changes)


def target(dialect: Dialect = Dialect.TOKENS, **changes: Any) -> EngineTarget:
    """Return where a request goes."""
    fields = {"grpc": EngineAddress("127.0.0.1:1"), "model": "m", "tokenizer_digest": Digest("d" * 64)}
    return EngineTarget(dialect=dialect, **fields | changes)


def sampling(**changes: Any) -> SamplingParameters:
    """Return greedy parameters for up to 100 tokens."""
    return SamplingParameters(**{"max_tokens": 100, "temperature": 0.0} | changes)


def generate_request(**changes: Any) -> GenerateRequest:
    """Return a chat request for one choice."""
    fields: dict[str, Any] = {
        "request_id": "r1",
        "response_id": "chatcmpl-1",
        "api": Api.CHAT,
        "model": "tiny",
        "created": 7,
        "target": target(),
        "prompts": (prompt(),),
        "sampling": sampling(),
    }
    return GenerateRequest(**fields | changes)


def backend(**changes: Any) -> BackendOptions:
    """Return options that only some dialects can send."""
    return BackendOptions(**changes)
