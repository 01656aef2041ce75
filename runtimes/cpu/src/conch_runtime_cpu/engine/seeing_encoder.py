"""Runs a language model that sees as an encoder: texts with pictures among them in, the last hidden state out.

The pictures of a text come as in `conch_contracts.dialects.tokens`, and their features are kept as there.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from conch_contracts.cpu_runtime import DEFAULT_FEATURE_CACHE_BYTES
from conch_contracts.dialects import encoder as dialect
from conch_runtime_cpu.engine.decoder import ShownFeatures
from conch_runtime_cpu.engine.encoder import Given, Ids, Numbers, computed, open_encoder, token_ids
from conch_runtime_cpu.engine.vision import OnnxVision, SeenPictures, VisionCounter, picture_shape, uncounted
from conch_runtime_cpu.errors import UnservableRequest, UnusableModel
from conch_runtime_cpu.graphs.config_json import read_config
from conch_runtime_cpu.graphs.conversion import converted_seeing_encoder
from conch_runtime_cpu.graphs.decoder_graph import FEATURE_ROWS, FEATURES
from conch_runtime_cpu.graphs.vision_architecture import read_seeing_architecture, sees_pictures
from conch_runtime_cpu.pictures import TENSORS, ShownPicture, parse_pictures
from conch_runtime_cpu.requests import ModelLimits
from conch_runtime_cpu.settings import EncoderSettings


class SeeingEncoder:
    """A loaded model."""

    def __init__(
        self, session: onnxruntime.InferenceSession, seen: SeenPictures, limits: ModelLimits, feature_width: int
    ) -> None:
        self._session = session
        self._seen = seen
        self._limits = limits
        self._nothing = np.zeros((1, feature_width), np.float32)

    def answer(self, given: Given) -> tuple[str, Numbers]:
        """Return the output's name and the states of a batch; raises UnservableRequest for one that is wrong.

        A text with pictures is a batch of its own, because pictures have no row.
        """
        unknown = next((name for name in given if name not in (*dialect.INPUTS, *TENSORS)), None)
        if unknown is not None:
            raise UnservableRequest(f"{unknown}: this model sees pictures among texts, as {', '.join(TENSORS)}")
        ids = token_ids(given)
        if ids.ndim != 2 or ids.shape[1] > self._limits.context:
            raise UnservableRequest(
                f"{dialect.INPUT_IDS}: must be rows of at most {self._limits.context} tokens; found {list(ids.shape)}"
            )
        _check_padding(ids, given)
        return dialect.LAST_HIDDEN_STATE, self._states(ids, self._shown(ids, given))

    def _shown(self, ids: Ids, given: Given) -> ShownFeatures:
        pictures = self._pictures(ids, given)
        if not pictures:
            return ShownFeatures(self._nothing, np.full(ids.shape, -1, np.int64))
        features = [self._seen.features(picture) for picture in pictures]
        found = ShownFeatures.among(ids.shape[1], [picture.start for picture in pictures], features)
        return ShownFeatures(found.features, found.rows[np.newaxis])

    def _pictures(self, ids: Ids, given: Given) -> Sequence[ShownPicture]:
        shown = {name: given[name] for name in TENSORS if name in given}
        if shown and any(len(tensor) != 1 for tensor in (ids, *shown.values())):
            raise UnservableRequest(f"{next(iter(shown))}: a text with pictures must be a batch of its own")
        of_row: Mapping[str, NDArray[Any]] = {name: tensor[0] for name, tensor in shown.items()}
        return parse_pictures(of_row, ids[0].astype(np.int32), self._limits.picture)

    def _states(self, ids: Ids, shown: ShownFeatures) -> Numbers:
        rows, width = ids.shape
        tensors: Given = {
            dialect.INPUT_IDS: ids,
            "seqlens_k": np.full(rows, width - 1, np.int32),
            "total_len": np.array([width], np.int32),
            FEATURES: shown.features,
            FEATURE_ROWS: shown.rows,
        }
        return computed(self._session, dialect.LAST_HIDDEN_STATE, tensors)


def _check_padding(ids: Ids, given: Given) -> None:
    """Raise UnservableRequest for what the states would not heed: a token sees all before it, and none behind it."""
    if any(given[name].shape != ids.shape for name in dialect.INPUTS if name in given):
        raise UnservableRequest("the inputs must have one shape")
    mask = given.get(dialect.ATTENTION_MASK, np.ones_like(ids))
    if not np.isin(mask, (0, 1)).all() or (np.diff(mask) > 0).any():
        raise UnservableRequest(
            f"{dialect.ATTENTION_MASK}: must be ones and then zeros in each row; this model takes padding on the right"
        )
    if given.get(dialect.TOKEN_TYPE_IDS, np.zeros_like(ids)).any():
        raise UnservableRequest(f"{dialect.TOKEN_TYPE_IDS}: must be zeros; this model knows no types of tokens")


def holds_seeing_model(folder: Path) -> bool:
    """Return whether a folder is one of a language model that sees; one of a single ONNX file has no `config.json`."""
    return (folder / "config.json").is_file() and sees_pictures(read_config(folder))


def load_seeing_encoder(settings: EncoderSettings, vision_counter: VisionCounter = uncounted) -> SeeingEncoder:
    """Load a model; raises UnusableModel."""
    folder = settings.model_folder
    if settings.output != dialect.LAST_HIDDEN_STATE:
        raise UnusableModel(f"A language model that sees has no output like {settings.output}. Check spec.kind.")
    text, vision = read_seeing_architecture(folder, read_config(folder))
    files = converted_seeing_encoder(folder, text, vision, settings.cache_folder)
    tower = OnnxVision(files.vision)
    seen = SeenPictures(tower, DEFAULT_FEATURE_CACHE_BYTES, vision_counter())
    limits = ModelLimits(text.vocabulary, text.context, picture_shape(vision))
    encoder = SeeingEncoder(open_encoder(files.decoder), seen, limits, tower.warm_up())
    encoder.answer({dialect.INPUT_IDS: np.zeros((1, 2), np.int64)})  # a graph that cannot run fails before requests
    return encoder
