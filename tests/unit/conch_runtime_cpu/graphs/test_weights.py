"""Folders whose weights cannot be read are refused by the name of what is wrong."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from conch_runtime_cpu.errors import UnusableModel
from conch_runtime_cpu.graphs.weights import Weights

INDEX = "model.safetensors.index.json"


def test_tensors_are_found_by_the_names_that_they_get(tmp_path: Path) -> None:
    save_file({"model.a": np.ones(2, np.float16)}, tmp_path / "model.safetensors")
    found = Weights(tmp_path, renamed=lambda name: name.removeprefix("model."))
    assert "a" in found
    assert "model.a" not in found
    assert (found["a"].dtype, found["a"].tolist()) == (np.float32, [1.0, 1.0])
    with pytest.raises(UnusableModel, match=r"hold no tensor model\.a"):
        found["model.a"]


def test_numbers_that_are_no_weights_are_refused(tmp_path: Path) -> None:
    save_file({"a": np.ones(2, np.int8)}, tmp_path / "model.safetensors")
    with pytest.raises(UnusableModel, match="a is int8"):
        Weights(tmp_path)["a"]


def test_a_folder_without_weights_says_which_it_lacks(tmp_path: Path) -> None:
    with pytest.raises(UnusableModel, match=f"neither model.safetensors nor {INDEX}"):
        Weights(tmp_path)


def test_a_file_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    with pytest.raises(UnusableModel, match=r"model\.safetensors cannot be read"):
        Weights(tmp_path)


@pytest.mark.parametrize("index", ["", "[]", "{}", '{"weight_map": 1}', '{"weight_map": {"a": 1}}', "\xff"])
def test_an_index_that_is_none_is_named(tmp_path: Path, index: str) -> None:
    (tmp_path / INDEX).write_bytes(index.encode("latin-1"))
    with pytest.raises(UnusableModel, match=f"{INDEX} cannot be read"):
        Weights(tmp_path)


def test_files_of_an_index_that_are_missing_are_named_each_once(tmp_path: Path) -> None:
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": {"a": "2.st", "b": "1.st", "c": "../1.st"}}))
    with pytest.raises(UnusableModel, match=r"names files that are missing: 1\.st, 2\.st\."):
        Weights(tmp_path)


def test_a_tensor_that_is_in_none_of_its_file_is_named(tmp_path: Path) -> None:
    save_file({"a": np.ones(2, np.float32)}, tmp_path / "1.st")
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": {"b": "1.st"}}))
    with pytest.raises(UnusableModel, match=r"1\.st: b cannot be read"):
        Weights(tmp_path)["b"]


def test_a_file_that_has_gone_meanwhile_is_named(tmp_path: Path) -> None:
    save_file({"a": np.ones(2, np.float32)}, tmp_path / "model.safetensors")
    found = Weights(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(UnusableModel, match="a cannot be read"):
        found["a"]
