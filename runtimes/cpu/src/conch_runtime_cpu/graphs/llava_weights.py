"""Gives the tensors of a LLaVA-like folder the same names, whichever version of transformers wrote it.

Those of the text model get the names that they have in a folder of its own (`model.layers...`, `lm_head.weight`), the
others begin with `vision_tower.` or `multi_modal_projector.`.

| by         | text model                    | tower                               | head                     |
|------------|-------------------------------|-------------------------------------|--------------------------|
| 4.x        | `language_model.model.layers` | `vision_tower.vision_model.encoder` | `language_model.lm_head` |
| 5.x        | `model.language_model.layers` | `model.vision_tower.encoder`        | `lm_head`                |
| 5.x as 4.x | `language_model.model.layers` | `vision_tower.vision_model.encoder` | `language_model.lm_head` |
"""

from pathlib import Path

from conch_runtime_cpu.graphs.weights import Weights

_PARTS = ("language_model.", "vision_tower.", "multi_modal_projector.")
_RENAMED = (
    ("language_model.lm_head.", "lm_head."),
    ("language_model.model.", "model."),
    ("language_model.", "model."),
    ("vision_tower.vision_model.", "vision_tower."),
)


def llava_weights(folder: Path) -> Weights:
    """Return the folder's tensors by those names; raises UnusableModel."""
    return Weights(folder, renamed=_name)


def _name(stored: str) -> str:
    inner = stored.removeprefix("model.")
    name = inner if inner.startswith(_PARTS) else stored
    for old, new in _RENAMED:
        if name.startswith(old):
            return new + name.removeprefix(old)
    return name
