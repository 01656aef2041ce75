"""The Triton Python backend's side of an encoder.

Like `triton_model` it is imported by a repository's `model.py` alone, and keeps its name because repositories on disk
have it. A request is a batch already: whoever asks has padded it. Annotations are not evaluated, because the stub adds
some of the module's names only when it has loaded the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import triton_python_backend_utils as triton

from conch_contracts.cpu_runtime import INVALID_PREFIX
from conch_contracts.dialects import encoder as dialect
from conch_runtime_cpu.engine.clip_encoder import ClipEncoder, holds_clip, load_clip
from conch_runtime_cpu.engine.encoder import Encoder, load_encoder
from conch_runtime_cpu.engine.seeing_encoder import SeeingEncoder, holds_seeing_model, load_seeing_encoder
from conch_runtime_cpu.errors import UnservableRequest
from conch_runtime_cpu.numpy_version import refuse_numpy_2
from conch_runtime_cpu.pictures import TENSORS
from conch_runtime_cpu.settings import parse_encoder_settings
from conch_runtime_cpu.triton_messages import VisionCounter, given

_INPUTS = (*dialect.INPUTS, dialect.PIXEL_VALUES, *TENSORS)


class TritonPythonModel:
    """What Triton loads: one encoder."""

    _encoder: Encoder | ClipEncoder | SeeingEncoder

    def initialize(self, args: Mapping[str, str]) -> None:
        """Load the model; what this raises becomes the reason in Triton's repository index."""
        refuse_numpy_2()
        settings = parse_encoder_settings(args["model_config"])
        if holds_seeing_model(settings.model_folder):
            self._encoder = load_seeing_encoder(settings, partial(VisionCounter, args["model_name"]))
        else:
            load = load_clip if holds_clip(settings.model_folder) else load_encoder
            self._encoder = load(settings)

    def execute(self, requests: Sequence[triton.InferenceRequest]) -> list[triton.InferenceResponse]:
        """Answer each request; one that cannot be computed fails alone."""
        return [self._answer(request) for request in requests]

    def _answer(self, request: triton.InferenceRequest) -> triton.InferenceResponse:
        try:
            name, output = self._encoder.answer(given(request, _INPUTS))
        except UnservableRequest as error:
            return triton.InferenceResponse(error=triton.TritonError(f"{INVALID_PREFIX}{error}"))
        return triton.InferenceResponse([triton.Tensor(name, output)])
