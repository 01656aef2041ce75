"""The Triton Python backend's side of a language model; there are `triton_encoder` and `triton_speech` beside it.

Only they know `triton_python_backend_utils`, which exists inside Triton's stub process alone. So nothing but a
model repository's `model.py` imports this one; it keeps its name because repositories on disk have it. `execute` hands
requests to the engine and returns at once; the thread of `engine.response_sender` answers them through `TritonChannel`.
Annotations are not evaluated, because the stub adds some of the module's names only when it has loaded the model.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import triton_python_backend_utils as triton

from conch_contracts.cpu_runtime import INVALID_PREFIX
from conch_contracts.dialects import tokens as dialect
from conch_runtime_cpu.engine.loading import LoadedModel, load
from conch_runtime_cpu.engine.response_tensors import pack
from conch_runtime_cpu.errors import EngineStopped, UnservableRequest
from conch_runtime_cpu.numpy_version import refuse_numpy_2
from conch_runtime_cpu.pictures import TENSORS
from conch_runtime_cpu.requests import parse_request
from conch_runtime_cpu.server_guard import ServerGuard
from conch_runtime_cpu.settings import parse_settings
from conch_runtime_cpu.triton_messages import (
    FINAL,
    SWITCH_INTERVAL_S,
    TritonChannel,
    VisionCounter,
    failure,
    given,
    json_text,
    vector,
)


class TritonPythonModel:
    """What Triton loads: one model with one engine."""

    _model: LoadedModel
    _guard: ServerGuard

    def initialize(self, args: Mapping[str, str]) -> None:
        """Load the model; what this raises becomes the reason in Triton's repository index."""
        refuse_numpy_2()
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        self._model = load(parse_settings(args["model_config"]), partial(VisionCounter, args["model_name"]))
        self._model.engine.start()
        self._model.grammars.start()
        self._guard = ServerGuard()

    def execute(self, requests: Sequence[triton.InferenceRequest]) -> None:
        """Accept or refuse each request; never waits."""
        for request in requests:
            sender = request.get_response_sender()
            try:
                ids = vector(request, dialect.INPUT_IDS, np.int32)
                shown = given(request, TENSORS)
                parsed = parse_request(ids, json_text(request, dialect.PARAMETERS), self._model.limits, shown)
                target = self._model.engine if parsed.sampling.grammar is None else self._model.grammars
                target.submit(parsed, TritonChannel(sender, pack))
            except UnservableRequest as error:
                sender.send(failure(f"{INVALID_PREFIX}{error}"), flags=FINAL)
            except EngineStopped as error:
                sender.send(failure(str(error)), flags=FINAL)

    def finalize(self) -> None:
        """End the engine."""
        self._guard.end()
        self._model.grammars.stop()
        self._model.engine.stop()
