"""Reads the tensors of a Hugging Face folder, whole or sharded, as 32-bit floats."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from conch_runtime_cpu.errors import UnusableModel

_SINGLE = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_FLOATS = ("float16", "bfloat16", "float32", "float64")


class Weights:
    """The tensors of one folder by name; each is read when asked for."""

    def __init__(self, folder: Path, *, renamed: Callable[[str], str] = str) -> None:
        self._file_of = _locate(folder)
        self._stored = {renamed(name): name for name in self._file_of}

    @property
    def files(self) -> tuple[Path, ...]:
        """Return every file that holds tensors, sorted."""
        return tuple(sorted(set(self._file_of.values())))

    def __contains__(self, name: str) -> bool:
        return name in self._stored

    def __getitem__(self, name: str) -> NDArray[np.float32]:
        stored = self._stored.get(name)
        if stored is None:
            raise UnusableModel(f"The weights hold no tensor {name}.")
        path = self._file_of[stored]
        try:
            with safe_open(path, framework="np") as file:
                tensor = file.get_tensor(stored)
        except (OSError, SafetensorError) as error:
            raise UnusableModel(f"{path}: {name} cannot be read: {error}") from error
        if tensor.dtype.name not in _FLOATS:
            raise UnusableModel(f"{name} is {tensor.dtype.name}; the weights must be floating-point numbers.")
        return np.ascontiguousarray(tensor, dtype=np.float32)


def _locate(folder: Path) -> Mapping[str, Path]:
    index = folder / _INDEX
    if index.is_file():
        return _read_index(index)
    single = folder / _SINGLE
    try:
        with safe_open(single, framework="np") as file:
            return dict.fromkeys(file.keys(), single)
    except FileNotFoundError:
        raise UnusableModel(f"{folder} holds neither {_SINGLE} nor {_INDEX}.") from None
    except (OSError, SafetensorError) as error:
        raise UnusableModel(f"{single} cannot be read: {error}") from error


def _read_index(index: Path) -> Mapping[str, Path]:
    try:
        files = json.loads(index.read_bytes())["weight_map"]
        located = {str(name): index.parent / Path(file).name for name, file in files.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UnusableModel(f"{index} cannot be read: {error!r}") from error
    missing = sorted({path.name for path in located.values() if not path.is_file()})
    if missing:
        raise UnusableModel(f"{index} names files that are missing: {', '.join(missing)}.")
    return located
