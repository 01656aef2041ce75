"""The Triton Python backend's side of a model of speech.

Like `triton_model` it is imported by a repository's `model.py` alone, and keeps its name because repositories on disk
have it. Annotations are not evaluated, because the stub adds some of the module's names only when it has loaded the
model.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import numpy as np
import triton_python_backend_utils as triton

from conch_contracts.cpu_runtime import INVALID_PREFIX
from conch_contracts.dialects import speech as dialect
from conch_runtime_cpu.engine.speech_loading import LoadedSpeechModel, load_speech
from conch_runtime_cpu.engine.speech_response import pack_speech
from conch_runtime_cpu.errors import EngineStopped, UnservableRequest
from conch_runtime_cpu.numpy_version import refuse_numpy_2
from conch_runtime_cpu.server_guard import ServerGuard
from conch_runtime_cpu.settings import parse_settings
from conch_runtime_cpu.speech.window_requests import parse_window
from conch_runtime_cpu.triton_messages import FINAL, SWITCH_INTERVAL_S, TritonChannel, failure, json_text, vector


class TritonPythonModel:
    """What Triton loads: one model with one engine."""

    _model: LoadedSpeechModel
    _guard: ServerGuard

    def initialize(self, args: Mapping[str, str]) -> None:
        """Load the model; what this raises becomes the reason in Triton's repository index."""
        refuse_numpy_2()
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        self._model = load_speech(parse_settings(args["model_config"]))
        self._model.engine.start()
        self._guard = ServerGuard()

    def execute(self, requests: Sequence[triton.InferenceRequest]) -> None:
        """Accept or refuse each request; never waits."""
        for request in requests:
            sender = request.get_response_sender()
            try:
                window = parse_window(
                    vector(request, dialect.PCM, np.int16).copy(),  # the server takes its memory back
                    vector(request, dialect.PROMPT_IDS, np.int32),
                    json_text(request, dialect.PARAMETERS),
                    self._model.vocabulary,
                    self._model.context,
                )
                self._model.engine.submit(window, TritonChannel(sender, pack_speech))
            except UnservableRequest as error:
                sender.send(failure(f"{INVALID_PREFIX}{error}"), flags=FINAL)
            except EngineStopped as error:
                sender.send(failure(str(error)), flags=FINAL)

    def finalize(self) -> None:
        """End the engine."""
        self._guard.end()
        self._model.engine.stop()
