"""Builders of registry records; say only what a test is about."""

from conch_contracts.names import Digest, EngineAddress, ModelId, ServedName
from conch_contracts.records import Dialect, Engine, ModelKind, Route


def route(name: str, *, served: tuple[str, ...] = (), created: int = 1, max_model_len: int = 128) -> Route:
    """Return the route of the model `local/<name>`."""
    return Route(
        model_id=ModelId(f"local/{name}"),
        served_names=tuple(ServedName(alias) for alias in served or (name,)),
        kind=ModelKind.LLM,
        dialect=Dialect.TOKENS,
        engine_model=name,
        tokenizer_digest=Digest("0" * 64),
        max_model_len=max_model_len,
        vocab_size=1000,
        created=created,
    )


def engine(port: int = 8001) -> Engine:
    """Return a ready engine on this machine."""
    return Engine(grpc=EngineAddress(f"127.0.0.1:{port}"))


def listing(*models: tuple[Route, tuple[Engine, ...]]) -> dict[ModelId, tuple[Route, tuple[Engine, ...]]]:
    """Return models as a writer publishes them."""
    return {found.model_id: (found, engines) for found, engines in models}
