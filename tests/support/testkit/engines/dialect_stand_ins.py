"""A stand-in for every dialect, and for each form that its models have, all playing the same scripts."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from conch_contracts.records import Dialect
from testkit.engines.backend_stand_ins import install, parameter
from testkit.servers.triton import RunningTriton, triton_server

_STREAMED = {"decoupled: (?:F|f)alse": "decoupled: true"}
_UNARY = {"decoupled: true": "decoupled: false"}


@dataclass(frozen=True, slots=True)
class StandIn:
    """One model on the server of stand-ins."""

    name: str
    dialect: Dialect
    model: str
    config: str = "config.pbtxt"
    changes: Mapping[str, str] = field(default_factory=dict)


PER_DIALECT = (
    StandIn("tokens", Dialect.TOKENS, "tokens"),
    StandIn(
        "fastertransformer",
        Dialect.FASTERTRANSFORMER,
        "fastertransformer",
        changes=_STREAMED | parameter("end_id", 256),
    ),
    StandIn("tensorrtllm", Dialect.TENSORRTLLM, "tensorrt_llm"),
    StandIn("vllm", Dialect.VLLM, "vllm"),
)
"""The usual model of each dialect."""

OTHER_FORMS = (
    StandIn(
        "ft-least",
        Dialect.FASTERTRANSFORMER,
        "fastertransformer",
        changes=_STREAMED
        | parameter("end_id", 256)
        | {
            r'(\n *)(\{ name: "random_seed"[^\n]*)': r'\1\2\1{ name: "min_length" data_type: TYPE_UINT32 dims: [ 1 ]'
            r" reshape: { shape: [ ] } optional: true },"
        },
    ),
    StandIn("trt-unary", Dialect.TENSORRTLLM, "tensorrt_llm", changes=_UNARY),
    StandIn(
        "trt-unary-old",
        Dialect.TENSORRTLLM,
        "tensorrt_llm",
        changes=_UNARY
        | {
            '"seed"': '"random_seed"',
            '"min_tokens"': '"min_length"',
            r'[^\n]*"exclude_input_in_output"[^\n]*\n': "",
            '"request_output_len" data_type: TYPE_INT32': '"request_output_len" data_type: TYPE_UINT32',
        },
    ),
    StandIn("trt-bls", Dialect.TENSORRTLLM, "tensorrt_llm", "bls.pbtxt"),
    StandIn(
        "trt-bls-old",
        Dialect.TENSORRTLLM,
        "tensorrt_llm",
        "bls.pbtxt",
        changes={
            r'[^\n]*"exclude_input_in_output"[^\n]*\n': "",
            r'[^\n]*"return_num_output_tokens"[^\n]*\n': "",
            '("(?:bad|stop)_words" data_type: TYPE_STRING dims: . -1 .) optional: true': r"\1",
        },
    ),
    StandIn("trt-bls-unary", Dialect.TENSORRTLLM, "tensorrt_llm", "bls.pbtxt", changes=_UNARY),
    StandIn("trt-llm-api", Dialect.TENSORRTLLM, "tensorrt_llm", "llmapi.pbtxt"),
    StandIn("trt-llm-api-streamed", Dialect.TENSORRTLLM, "tensorrt_llm", "llmapi.pbtxt", changes=_STREAMED),
    StandIn(
        "vllm-old",
        Dialect.VLLM,
        "vllm",
        changes={
            '"text_input"': '"PROMPT"',
            '"stream"': '"STREAM"',
            '"sampling_parameters"': '"SAMPLING_PARAMETERS"',
            '"text_output"': '"TEXT"',
            r'[^\n]*"(?:image|exclude_input_in_output|return_\w*|embedding_request)"[^\n]*optional: true }(,?)\n': "",
            r"(dims: \[ 1 \] optional: true }),(\s+\])": r"\1\2",
        },
    ),
)
"""What else models of these dialects look like."""

ENSEMBLE = StandIn(
    "trt-ensemble", Dialect.TENSORRTLLM, "tensorrt_llm", "bls.pbtxt", parameter("accumulate_tokens", "false")
)
"""Decodes each message alone, so characters of several tokens are lost in it."""

NARROW = StandIn("trt-narrow", Dialect.TENSORRTLLM, "tensorrt_llm", changes={r'[^\n]*"max_beam_width"[^\n]*\n': ""})
"""Does not say that it searches with one beam only."""

ALL = (*PER_DIALECT, *OTHER_FORMS, ENSEMBLE, NARROW)


@contextmanager
def dialects_server(folder: Path, events: Path, models: tuple[StandIn, ...] = ALL) -> Iterator[RunningTriton]:
    """Give a server with these models; what happens in them is written to `events`."""
    for one in models:
        changes = {**one.changes, **parameter("events", events)}
        install(folder / "stand-ins", one.name, one.model, config=one.config, changes=changes)
    with triton_server(folder / "stand-ins", *(one.name for one in models), folder=folder) as server:
        yield server
