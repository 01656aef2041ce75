"""Runs an encoder: whole batches in, hidden states or logits out.

The model is the folder's own ONNX file where there is one, else one that is built from its weights. Whatever the file
calls its tensors, this module speaks the names of `conch_contracts.dialects.encoder`. A folder of CLIP is
`clip_encoder`'s.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from conch_contracts.dialects import encoder as dialect
from conch_runtime_cpu.engine.onnx_session import half_of_the_cores, open_session
from conch_runtime_cpu.errors import UnservableRequest, UnusableModel
from conch_runtime_cpu.graphs.conversion import converted_encoder
from conch_runtime_cpu.settings import EncoderSettings

Ids = NDArray[np.int64]
Numbers = NDArray[np.float32]
Given = Mapping[str, NDArray[Any]]
"""The inputs of a batch that came, by name."""

_NAMES = {
    dialect.LAST_HIDDEN_STATE: (dialect.LAST_HIDDEN_STATE, "token_embeddings", "hidden_states"),
    dialect.LOGITS: (dialect.LOGITS, "scores", "output"),
}
_RANKS = {dialect.LAST_HIDDEN_STATE: 3, dialect.LOGITS: 2}


class Encoder:
    """A loaded model."""

    def __init__(self, model: Path, output: str) -> None:
        self._session = open_encoder(model)
        self._name = output
        self._inputs = tuple(item.name for item in self._session.get_inputs())
        if dialect.PIXEL_VALUES in self._inputs:
            raise UnusableModel(
                f"{model} takes pictures, whose vectors are computed from the weights of a CLIP model alone. Put the "
                "safetensors of one in its place, or a model.onnx of the tower of texts."
            )
        self._output = _find_output({item.name: len(item.shape) for item in self._session.get_outputs()}, output)
        unknown = [name for name in self._inputs if name not in dialect.INPUTS]
        if unknown or dialect.INPUT_IDS not in self._inputs:
            found = ", ".join(self._inputs)
            raise UnusableModel(f"{model} must take {', '.join(dialect.INPUTS)}; it takes {found}.")

    def warm_up(self) -> None:
        """Compute once, so that a graph that cannot run fails before the first request."""
        row = np.ones((1, 2), np.int64)
        self.run({dialect.INPUT_IDS: row, dialect.ATTENTION_MASK: row, dialect.TOKEN_TYPE_IDS: row - row})

    def answer(self, given: Given) -> tuple[str, Numbers]:
        """Return the output's name and the output for a batch; raises UnservableRequest for one that is wrong."""
        return self._name, self.run(_completed(given))

    def run(self, tensors: Mapping[str, Ids]) -> Numbers:
        """Return the output for a batch; raises UnservableRequest for a batch that the model cannot compute."""
        return computed(self._session, self._output, {name: tensors[name] for name in self._inputs})


def computed(session: onnxruntime.InferenceSession, output: str, tensors: Given) -> Numbers:
    """Return what a graph makes of a batch; raises UnservableRequest for one that it cannot compute."""
    try:
        (found,) = session.run([output], tensors)
    except onnxruntime.capi.onnxruntime_pybind11_state.Fail as error:
        raise UnservableRequest(_first_line(error)) from error
    except onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument as error:
        raise UnservableRequest(_first_line(error)) from error
    return np.ascontiguousarray(found, np.float32)


def token_ids(given: Given) -> Ids:
    """Return the ids of a batch; raises UnservableRequest where there are none."""
    ids = given.get(dialect.INPUT_IDS)
    if ids is None or ids.size == 0:
        raise UnservableRequest(f"{dialect.INPUT_IDS}: must hold at least one token")
    return ids


def _completed(given: Given) -> Mapping[str, Ids]:
    """Return all inputs: a model may ask for each of them, so what was not sent is filled in."""
    ids = token_ids(given)
    unknown = next((name for name in given if name not in dialect.INPUTS), None)
    if unknown is not None:
        raise UnservableRequest(f"{unknown}: this model sees no pictures")
    if any(value.shape != ids.shape for value in given.values()):
        raise UnservableRequest("the inputs must have one shape")
    filled = {dialect.ATTENTION_MASK: np.ones_like(ids), dialect.TOKEN_TYPE_IDS: np.zeros_like(ids)}
    return {**filled, **given}


def load_encoder(settings: EncoderSettings) -> Encoder:
    """Load a model; raises UnusableModel."""
    folder = settings.model_folder
    own = next((folder / name for name in dialect.ONNX_FILES if (folder / name).is_file()), None)
    encoder = Encoder(own or converted_encoder(folder, settings.cache_folder), settings.output)
    encoder.warm_up()
    return encoder


def _find_output(ranks: Mapping[str, int], wanted: str) -> str:
    named = next((name for name in _NAMES[wanted] if name in ranks), None)
    if named is not None and ranks[named] == _RANKS[wanted]:
        return named
    fitting = [name for name, rank in ranks.items() if rank == _RANKS[wanted]]
    if not fitting:
        raise UnusableModel(f"The model has no output like {wanted}; it has {', '.join(ranks)}. Check spec.kind.")
    return fitting[0]


def open_encoder(model: Path) -> onnxruntime.InferenceSession:
    """Load a graph; raises UnusableModel."""
    try:
        return open_session(model, threads=half_of_the_cores())
    except (RuntimeError, onnxruntime.capi.onnxruntime_pybind11_state.InvalidProtobuf) as error:
        raise UnusableModel(f"{model} cannot be loaded: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0][:300]
