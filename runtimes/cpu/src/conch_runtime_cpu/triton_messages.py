"""What the modules of Triton's stub have in common: inputs out of a request, responses on its way back, counters.

Like them it knows `triton_python_backend_utils`, which exists inside Triton's stub process alone. Annotations are not
evaluated, because the stub adds some of that module's names only when it has loaded the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

import numpy as np
import triton_python_backend_utils as triton
from numpy.typing import NDArray

from conch_runtime_cpu.engine.response_queue import R
from conch_runtime_cpu.errors import ChannelClosed, UnservableRequest

Whole = TypeVar("Whole", bound=np.integer[Any])
FINAL = triton.TRITONSERVER_RESPONSE_COMPLETE_FINAL
_VISION_RUNS = "conch_cpu_vision_runs_total"
SWITCH_INTERVAL_S = 0.0005
"""How long a thread may keep the interpreter while another wants it: bounds what a first token waits for."""


class TritonChannel(Generic[R]):
    """The way back to one client; never used again after a final message."""

    def __init__(
        self, sender: triton.InferenceResponseSender, pack: Callable[[R], Iterable[tuple[str, NDArray[np.generic]]]]
    ) -> None:
        self._sender = sender
        self._pack = pack

    def send(self, response: R) -> None:
        """Send one message; raises ChannelClosed."""
        try:
            self._sender.send(self._message(response), flags=FINAL if response.final else 0)
        except triton.TritonModelException as error:
            raise ChannelClosed(str(error)) from error

    def cancelled(self) -> bool:
        """Return whether the client has gone; a round trip to the server."""
        return bool(self._sender.is_cancelled())

    def _message(self, response: R) -> triton.InferenceResponse:
        if response.error is not None:
            return failure(response.error)
        return triton.InferenceResponse([triton.Tensor(name, value) for name, value in self._pack(response)])


class VisionCounter:
    """Counts the pictures that were computed, among the server's own metrics; its family must live as long."""

    def __init__(self, model: str) -> None:
        self._family = triton.MetricFamily(
            name=_VISION_RUNS,
            description="Pictures whose features were computed, because they were not among those that are kept.",
            kind=triton.MetricFamily.COUNTER,
        )
        self._counter = self._family.Metric(labels={"model": model})

    def __call__(self) -> None:
        """Count one."""
        self._counter.increment(1)


def failure(message: str) -> triton.InferenceResponse:
    """Return a response that says what went wrong."""
    return triton.InferenceResponse(error=triton.TritonError(message))


def vector(request: triton.InferenceRequest, name: str, kind: type[Whole]) -> NDArray[Whole]:
    """Return a tensor of one dimension; raises UnservableRequest."""
    values = _input(request, name).astype(kind, copy=False)
    if values.ndim != 1:
        raise UnservableRequest(f"{name}: must have one dimension; found shape {list(values.shape)}")
    return values


def given(request: triton.InferenceRequest, names: Iterable[str]) -> dict[str, NDArray[np.generic]]:
    """Return those of these tensors that a request has; they are gone when `execute` returns."""
    found = ((name, triton.get_input_tensor_by_name(request, name)) for name in names)
    return {name: tensor.as_numpy() for name, tensor in found if tensor is not None}


def json_text(request: triton.InferenceRequest, name: str) -> bytes:
    """Return the one text that a tensor holds; raises UnservableRequest."""
    values = _input(request, name).reshape(-1)
    if len(values) != 1:
        raise UnservableRequest(f"{name}: must hold one JSON text; found {len(values)}")
    return bytes(values[0])


def _input(request: triton.InferenceRequest, name: str) -> NDArray[np.generic]:
    tensor = triton.get_input_tensor_by_name(request, name)
    if tensor is None:
        raise UnservableRequest(f"{name}: missing")
    value: NDArray[np.generic] = tensor.as_numpy()
    return value
