"""Edits of model files while `conch up` runs."""

from pathlib import Path

import pytest

from conch_operator.local.state_folder import StateFolder
from conch_operator.local.watched_model_files import DesiredModels, InvalidFiles
from conch_operator.manifests.yaml_files import load

GOOD = """
apiVersion: conch.dev/v1alpha1
kind: ModelDeployment
metadata: {name: tiny}
spec: {kind: LLM, source: {path: tiny}, engine: {cpu: {}}, servedNames: [first]}
"""


def served(desired: DesiredModels) -> list[tuple[str, tuple[str, ...]]]:
    models = [model.deployment for model in desired.current.models]
    return [(str(model.spec.kind), tuple(model.spec.served_names)) for model in models]


def test_an_edit_is_taken_and_one_that_must_not_be_made_leaves_what_was_wanted(tmp_path: Path) -> None:
    file, state = tmp_path / "models.yaml", tmp_path / "state"
    state.mkdir()
    desired = DesiredModels(lambda: load([file]), StateFolder(state))
    file.write_text(GOOD)
    desired.reload()
    file.write_text(GOOD.replace("first", "second"))
    desired.reload()
    assert served(desired) == [("LLM", ("second",))]
    file.write_text(GOOD.replace("LLM", "Rerank"))
    for _ in range(2):  # it stays refused
        with pytest.raises(InvalidFiles, match=r"spec\.kind cannot change from LLM to Rerank"):
            desired.reload()
    assert served(desired) == [("LLM", ("second",))]
