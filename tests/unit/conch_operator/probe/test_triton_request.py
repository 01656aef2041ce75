"""The one-token request of each dialect holds what the model's config wants, and nothing else."""

import struct
from typing import Any

import pytest
from tritonclient.grpc.model_config_pb2 import ModelConfig

from conch_contracts.conditions import Reason
from conch_contracts.names import EngineAddress
from conch_contracts.records import Dialect
from conch_kit.triton.client import RepositoryEntry
from conch_kit.triton.declared_tensors import DeclaredTensors
from conch_kit.triton.errors import EngineFull, EngineRejected, EngineUnavailable, MalformedResponse
from conch_kit.triton.http_client import TritonHttp
from conch_operator.probe.prober import NoAnswer, Target
from conch_operator.probe.triton_request import TritonProbeClient, load_cause, one_token_request, speech_request
from testkit.engines.engine_messages import inputs
from testkit.engines.listening_triton import ListeningTriton

IDS = {"input_ids": "INT32", "input_lengths": "INT32", "request_output_len": "UINT32"}


@pytest.mark.parametrize(
    ("dialect", "types", "decoupled", "sent"),
    [
        (
            Dialect.FASTERTRANSFORMER,
            dict.fromkeys(IDS, "UINT32") | {"seed": "UINT64"},
            True,
            {"input_ids": [0], "input_lengths": [1], "request_output_len": [1]},
        ),
        (
            Dialect.TENSORRTLLM,
            IDS | {"streaming": "BOOL"},
            True,
            {"input_ids": [0], "input_lengths": [1], "request_output_len": [1], "streaming": [True]},
        ),
        (
            Dialect.TENSORRTLLM,
            {"text_input": "BYTES", "max_tokens": "INT32", "stream": "BOOL", "bad_words": "BYTES"},
            False,
            {"max_tokens": [1], "stream": [False]},
        ),
        (Dialect.TENSORRTLLM, {"text_input": "BYTES", "sampling_param_max_tokens": "INT32"}, False, {}),
        (
            Dialect.VLLM,
            {"text_input": "BYTES", "sampling_parameters": "BYTES", "stream": "BOOL"},
            True,
            {"stream": [True]},
        ),
        (Dialect.VLLM, {"PROMPT": "BYTES", "SAMPLING_PARAMETERS": "BYTES", "STREAM": "BOOL"}, True, {"STREAM": [True]}),
    ],
)
def test_one_token_is_asked_for(
    dialect: Dialect, types: dict[str, str], decoupled: bool, sent: dict[str, list[Any]]
) -> None:
    layout = DeclaredTensors(types, batched=True, decoupled=decoupled, required=frozenset(types) - {"seed"})
    request = one_token_request(dialect, "m", layout)
    found = inputs(request)
    assert sorted(tensor.name for tensor in request.inputs) == sorted(layout.required)
    assert sent.items() <= {name: values for name, (_, _, values) in found.items()}.items()
    assert all(shape == [1, 1] and types[name] == kind for name, (kind, shape, _) in found.items())


def test_a_model_of_another_kind_is_told_by_what_it_lacks() -> None:
    layout = DeclaredTensors({"audio": "FP32"}, batched=False, decoupled=True, required=frozenset({"audio"}))
    with pytest.raises(MalformedResponse, match="needs the input audio"):
        one_token_request(Dialect.VLLM, "m", layout)


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        (
            "Internal: UnusableModel: No such layer.\n\nAt:\n  /opt/conch/loading.py(30): load\n",
            "Internal: UnusableModel: No such layer.",
        ),
        ("Invalid argument: unexpected shape", "Invalid argument: unexpected shape"),
    ],
)
def test_a_load_error_is_told_without_its_stack(reason: str, cause: str) -> None:
    assert load_cause(reason) == cause


class Holding(ListeningTriton):
    """A server that holds other models than the one that is asked for."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self._names = names

    async def model_config(self, address: EngineAddress, model: str, *, timeout_s: float = 5.0) -> ModelConfig:
        raise EngineRejected("unknown model")

    async def repository_index(self, address: EngineAddress, *, timeout_s: float = 5.0) -> list[RepositoryEntry]:
        return [RepositoryEntry(name, "1", "READY", "") for name in self._names]


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (("..2026_01_01", "..data", "bert", "gpt"), "it holds: bert, gpt"),
        (("..2026_01_01", "..data"), "it holds: none"),
    ],
)
async def test_a_folder_that_kubernetes_makes_in_a_volume_is_no_model(names: tuple[str, ...], told: str) -> None:
    client = TritonProbeClient(Holding(*names), TritonHttp())
    with pytest.raises(NoAnswer, match=told):
        await client.probe(Target(EngineAddress("engine:8001"), "tiny", Dialect.VLLM))


STUB_ENDED = "Internal: Stub process 'tiny_0_0' is not healthy."


class Killed(ListeningTriton):
    """A server whose Python model was killed, while it loaded or after; the server lives on."""

    def __init__(self, state: str, reason: str) -> None:
        super().__init__()
        self._row = RepositoryEntry("tiny", "1", state, reason)

    async def model_config(self, address: EngineAddress, model: str, *, timeout_s: float = 5.0) -> ModelConfig:
        raise EngineRejected(STUB_ENDED)

    async def repository_index(self, address: EngineAddress, *, timeout_s: float = 5.0) -> list[RepositoryEntry]:
        return [self._row]


@pytest.mark.parametrize(
    ("state", "reason", "told"),
    [
        pytest.param("UNAVAILABLE", STUB_ENDED, Reason.ENGINE_LOAD_FAILED, id="while it loaded"),
        pytest.param("READY", "", Reason.ENGINE_PROBE_FAILED, id="later"),
    ],
)
async def test_a_process_that_was_killed_is_told_as_what_its_memory_may_have_done(
    state: str, reason: str, told: Reason
) -> None:
    client = TritonProbeClient(Killed(state, reason), TritonHttp())
    with pytest.raises(NoAnswer, match=r"is not healthy\. The model's Python process ended") as caught:
        await client.probe(Target(EngineAddress("engine:8001"), "tiny", Dialect.VLLM))
    assert caught.value.reason is told
    assert str(caught.value).endswith("see limits.memory in spec.engine.resources.")


class Away(ListeningTriton):
    """A server that cannot be reached at first, and by the time that it is asked what it holds, can."""

    def __init__(self, state: str, *, times: int) -> None:
        super().__init__()
        self._state, self._times = state, times

    async def model_config(self, address: EngineAddress, model: str, *, timeout_s: float = 5.0) -> ModelConfig:
        if self._times:
            self._times -= 1
            raise EngineUnavailable("The engine has stopped accepting requests: it has crashed.")
        raise EngineFull("it answers")

    async def repository_index(self, address: EngineAddress, *, timeout_s: float = 5.0) -> list[RepositoryEntry]:
        return [RepositoryEntry("tiny", "1", self._state, "")]


@pytest.mark.parametrize(
    ("state", "times", "reason", "busy"),
    [
        pytest.param("READY", 1, Reason.ENGINE_PROBE_FAILED, True, id="it had just come up"),
        pytest.param("LOADING", 1, Reason.ENGINE_UNREACHABLE, False, id="it comes up"),
        pytest.param("READY", 2, Reason.ENGINE_PROBE_FAILED, False, id="it calls itself ready and takes nothing"),
    ],
)
async def test_a_server_that_takes_nothing_though_its_model_is_ready_has_failed(
    state: str, times: int, reason: Reason, busy: bool
) -> None:
    target = Target(EngineAddress("engine:8001"), "tiny", Dialect.VLLM)
    with pytest.raises(NoAnswer) as caught:
        await TritonProbeClient(Away(state, times=times), TritonHttp()).probe(target)
    assert (caught.value.reason, caught.value.busy) == (reason, busy)


def test_a_moment_of_silence_is_heard() -> None:
    request = speech_request("m", (1, 2, 3))
    found = {tensor.name: raw for tensor, raw in zip(request.inputs, request.raw_input_contents, strict=True)}
    assert found["pcm"] == bytes(3200)
    assert found["prompt_ids"] == struct.pack("<3i", 1, 2, 3)
    assert found["parameters"].endswith(b'{"max_tokens":1}')
