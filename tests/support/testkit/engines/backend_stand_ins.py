"""Stand-ins for the backends of language models: real Triton models that keep a backend's contract and play a script.

They live in `tests/support/triton_models`; `script.py` there says what they answer. This module puts them into a model
repository.
"""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "triton_models"


def install(
    repository: Path, name: str, model: str, *, config: str = "config.pbtxt", changes: Mapping[str, str] | None = None
) -> Path:
    """Put a stand-in into a repository under a name; `changes` are replacements in the text of its config."""
    version = repository / name / "1"
    version.mkdir(parents=True)
    for source in (FOLDER / model / "1" / "model.py", FOLDER / "script.py", FOLDER / "tones.py"):
        shutil.copy(source, version)
    text = (FOLDER / model / config).read_text()
    for found, wanted in (changes or {}).items():
        assert re.search(found, text), f"{model}/{config} has no {found}"
        text = re.sub(found, wanted, text)
    (repository / name / "config.pbtxt").write_text(text)
    return repository / name


def parameter(name: str, value: object) -> dict[str, str]:
    """Return the change that gives a parameter of a config another value."""
    written = f'key: "{name}" value: {{ string_value: "'
    return {re.escape(written) + '[^"]*': (written + str(value)).replace("\\", "\\\\")}
