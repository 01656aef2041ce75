"""The Triton Python backend's side of a language model; `triton_encoder` is that of an encoder.

Only these two know `triton_python_backend_utils`, which exists inside Triton's stub process alone. So nothing but a
model repository's `model.py` imports this one; it keeps its name because repositories on disk have it. `execute` hands
requests to the engine and returns at once; the thread of `engine.response_sender` answers them through `TritonChannel`.
Annotations are not evaluated, because the stub adds some of the module's names only when it has loaded the model.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import numpy as np
import triton_python_backend_utils as triton
from numpy.typing import NDArray

from conch_contracts.cpu_runtime import INVALID_PREFIX
from conch_contracts.dialects import tokens as dialect
from conch_runtime_cpu.engine.loading import LoadedModel, load
from conch_runtime_cpu.engine.response_queue import PartialResponse
from conch_runtime_cpu.engine.response_tensors import pack
from conch_runtime_cpu.errors import ChannelClosed, EngineStopped, UnservableRequest
from conch_runtime_cpu.numpy_version import refuse_numpy_2
from conch_runtime_cpu.requests import parse_request
from conch_runtime_cpu.settings import parse_settings

_FINAL = triton.TRITONSERVER_RESPONSE_COMPLETE_FINAL
_SWITCH_INTERVAL_S = 0.0005
"""How long a thread may keep the interpreter while another wants it: bounds what a first token waits for."""


class TritonPythonModel:
    """What Triton loads: one model with one engine."""

    _model: LoadedModel

    def initialize(self, args: Mapping[str, str]) -> None:
        """Load the model; what this raises becomes the reason in Triton's repository index."""
        refuse_numpy_2()
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        self._model = load(parse_settings(args["model_config"]))
        self._model.engine.start()
        self._model.grammars.start()

    def execute(self, requests: Sequence[triton.InferenceRequest]) -> None:
        """Accept or refuse each request; never waits."""
        for request in requests:
            sender = request.get_response_sender()
            try:
                parsed = parse_request(_ids(request), _parameters(request), self._model.limits)
                target = self._model.engine if parsed.sampling.grammar is None else self._model.grammars
                target.submit(parsed, TritonChannel(sender))
            except UnservableRequest as error:
                sender.send(_failure(f"{INVALID_PREFIX}{error}"), flags=_FINAL)
            except EngineStopped as error:
                sender.send(_failure(str(error)), flags=_FINAL)

    def finalize(self) -> None:
        """End the engine."""
        self._model.grammars.stop()
        self._model.engine.stop()


class TritonChannel:
    """The way back to one client; never used again after a final message."""

    def __init__(self, sender: triton.InferenceResponseSender) -> None:
        self._sender = sender

    def send(self, response: PartialResponse) -> None:
        """Send one message; raises ChannelClosed."""
        try:
            self._sender.send(_response(response), flags=_FINAL if response.final else 0)
        except triton.TritonModelException as error:
            raise ChannelClosed(str(error)) from error

    def cancelled(self) -> bool:
        """Return whether the client has gone; a round trip to the server."""
        return bool(self._sender.is_cancelled())


def _response(response: PartialResponse) -> triton.InferenceResponse:
    if response.error is not None:
        return _failure(response.error)
    return triton.InferenceResponse([triton.Tensor(name, value) for name, value in pack(response)])


def _failure(message: str) -> triton.InferenceResponse:
    return triton.InferenceResponse(error=triton.TritonError(message))


def _ids(request: triton.InferenceRequest) -> NDArray[np.int32]:
    ids = _input(request, dialect.INPUT_IDS).astype(np.int32, copy=False)
    if ids.ndim != 1:
        raise UnservableRequest(f"{dialect.INPUT_IDS}: must have one dimension; found shape {list(ids.shape)}")
    return ids


def _parameters(request: triton.InferenceRequest) -> bytes:
    values = _input(request, dialect.PARAMETERS).reshape(-1)
    if len(values) != 1:
        raise UnservableRequest(f"{dialect.PARAMETERS}: must hold one JSON text; found {len(values)}")
    return bytes(values[0])


def _input(request: triton.InferenceRequest, name: str) -> NDArray[np.generic]:
    tensor = triton.get_input_tensor_by_name(request, name)
    if tensor is None:
        raise UnservableRequest(f"{name}: missing")
    value: NDArray[np.generic] = tensor.as_numpy()
    return value
