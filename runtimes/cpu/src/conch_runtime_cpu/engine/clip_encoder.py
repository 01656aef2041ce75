"""Runs a CLIP model: batches of texts or of pictures in, a vector of each out."""

from pathlib import Path

import numpy as np

from conch_contracts.dialects import encoder as dialect
from conch_runtime_cpu.engine.encoder import Given, Numbers, computed, open_encoder, token_ids
from conch_runtime_cpu.errors import UnservableRequest, UnusableModel
from conch_runtime_cpu.graphs.clip_architecture import ClipArchitecture, is_clip, parse_clip_architecture
from conch_runtime_cpu.graphs.config_json import read_config
from conch_runtime_cpu.graphs.conversion import ClipFiles, converted_clip
from conch_runtime_cpu.settings import EncoderSettings

_CHANNELS = 3


class ClipEncoder:
    """A loaded model."""

    def __init__(self, files: ClipFiles, architecture: ClipArchitecture) -> None:
        self._texts = open_encoder(files.texts)
        self._pictures = open_encoder(files.pictures)
        self._positions = architecture.texts.positions
        self._side = architecture.pictures.side

    def warm_up(self) -> None:
        """Compute once, so that graphs that cannot run fail before the first request."""
        self.answer({dialect.INPUT_IDS: np.ones((1, 2), np.int64)})
        self.answer({dialect.PIXEL_VALUES: np.zeros((1, _CHANNELS, self._side, self._side), np.float32)})

    def answer(self, given: Given) -> tuple[str, Numbers]:
        """Return the output's name and the vectors of a batch; raises UnservableRequest for one that is wrong."""
        unknown = next((name for name in given if name not in (*dialect.INPUTS, dialect.PIXEL_VALUES)), None)
        if unknown is not None:
            raise UnservableRequest(f"{unknown}: this model sees pictures by themselves, as {dialect.PIXEL_VALUES}")
        if dialect.PIXEL_VALUES not in given:
            return dialect.TEXT_EMBEDS, self._of_texts(given)
        if dialect.INPUT_IDS in given:
            raise UnservableRequest(f"{dialect.PIXEL_VALUES}: texts and pictures are no batch together")
        return dialect.IMAGE_EMBEDS, self._of_pictures(given)

    def _of_texts(self, given: Given) -> Numbers:
        ids = token_ids(given)
        if ids.ndim != 2 or ids.shape[1] > self._positions:
            raise UnservableRequest(
                f"{dialect.INPUT_IDS}: must be rows of at most {self._positions} tokens; found {list(ids.shape)}"
            )
        return computed(self._texts, dialect.TEXT_EMBEDS, {dialect.INPUT_IDS: ids})

    def _of_pictures(self, given: Given) -> Numbers:
        pixels = given[dialect.PIXEL_VALUES]
        wanted = [_CHANNELS, self._side, self._side]
        if pixels.size == 0 or list(pixels.shape[1:]) != wanted:
            raise UnservableRequest(f"{dialect.PIXEL_VALUES}: each must be {wanted}; found {list(pixels.shape)}")
        return computed(self._pictures, dialect.IMAGE_EMBEDS, {dialect.PIXEL_VALUES: pixels})


def holds_clip(folder: Path) -> bool:
    """Return whether a folder is one of CLIP; one that is a single ONNX file need not have a `config.json`."""
    return (folder / "config.json").is_file() and is_clip(read_config(folder))


def load_clip(settings: EncoderSettings) -> ClipEncoder:
    """Load a model; raises UnusableModel."""
    folder: Path = settings.model_folder
    if settings.output != dialect.LAST_HIDDEN_STATE:
        raise UnusableModel(f"A CLIP model has no output like {settings.output}. Check spec.kind.")
    architecture = parse_clip_architecture(read_config(folder))
    encoder = ClipEncoder(converted_clip(folder, architecture, settings.cache_folder), architecture)
    encoder.warm_up()
    return encoder
