"""How a model's engines are run: one runtime block, named after the runtime."""

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from conch_contracts.records import Dialect
from conch_contracts.spec.fields import Integer, SpecPart

Address = Annotated[str, Field(pattern=r"^(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}$", max_length=300)]
TritonModelName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+$", max_length=200)]


class Quantization(StrEnum):
    """How the cpu runtime holds the weights."""

    NONE = "none"
    INT8 = "int8"
    INT4 = "int4"


class Runtime(StrEnum):
    """How an engine is built and started; the value is the name of its block in `spec.engine`."""

    CPU = "cpu"
    EXTERNAL = "external"


class CpuEngineSpec(SpecPart):
    """The runtime that serves a Hugging Face causal language model on CPU."""

    quantization: Quantization = Quantization.NONE
    """How the weights are held: none (32-bit floats), int8 or int4. Default: none."""
    max_batch_size: Annotated[Integer, Field(ge=1, le=1024)] = 16
    """Requests that one engine decodes together; more wait inside it. Default: 16."""
    tokens_per_second: Annotated[Integer, Field(ge=0, le=1_000_000)] = 0
    """A cap on each request's tokens per second, for tests and demonstrations; 0 means none. Default: 0."""


class ExternalEngineSpec(SpecPart):
    """A Triton server that someone else runs; `source` then gives the tokenizer only."""

    grpc: Address | None = None
    """host:port of its gRPC endpoint. Needed for kind LLM."""
    http: Address | None = None
    """host:port of its HTTP endpoint."""
    model_name: TritonModelName | None = None
    """The model's name inside Triton. Default: metadata.name."""
    dialect: Dialect | None = None
    """The tensor contract that the model speaks: tokens or fastertransformer. Needed for kind LLM."""

    @model_validator(mode="after")
    def _has_an_address(self) -> Self:
        if self.grpc is None and self.http is None:
            raise ValueError("set grpc (or http, for kinds other than LLM) to the server's host:port")
        return self


class EngineSpec(SpecPart):
    """Exactly one runtime block."""

    cpu: CpuEngineSpec | None = None
    """Serve the folder on CPU."""
    external: ExternalEngineSpec | None = None
    """Use a Triton server that someone else runs."""

    @model_validator(mode="after")
    def _one_runtime(self) -> Self:
        if (self.cpu is None) == (self.external is None):
            raise ValueError("set exactly one of cpu and external (write `cpu: {}` for the cpu runtime's defaults)")
        return self

    @property
    def runtime(self) -> Runtime:
        """Return which block is set."""
        return Runtime.CPU if self.cpu is not None else Runtime.EXTERNAL
