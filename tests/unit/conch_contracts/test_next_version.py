"""What the plan to v1beta1 rests on: the types lose nothing of an object, so its fields need no conversion."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from conch_contracts.modeldeployment import ModelDeployment, parse, parse_stored
from testkit.bad_models import CASES, model

_EXAMPLES = sorted((Path(__file__).parents[3] / "examples").rglob("*.yaml"))
_OBJECTS = [
    pytest.param(item, id=f"{path.name} {item['metadata']['name']}")
    for path in _EXAMPLES
    for item in yaml.safe_load_all(path.read_text(encoding="utf-8"))
    if item and item["kind"] == "ModelDeployment"
]
_ACCEPTED = [pytest.param(model(case.accepted), id=case.id) for case in CASES]


@pytest.mark.parametrize("manifest", _OBJECTS + _ACCEPTED)
def test_an_object_comes_out_of_the_types_as_it_went_in(manifest: dict[str, Any]) -> None:
    read = parse(manifest)
    again = _written(read)
    assert _names(again["spec"]) == _names(manifest["spec"])
    assert parse(again) == read
    assert parse_stored(again) == (read, ())


def _written(read: ModelDeployment) -> dict[str, Any]:
    written: dict[str, Any] = read.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return written


def _names(part: Any) -> Any:
    """Return the names of all fields, without the values: a type may spell 1.0 as 1, and `2Gi` as it was given."""
    if isinstance(part, dict):
        return {name: _names(value) for name, value in part.items()}
    return [_names(value) for value in part] if isinstance(part, list) else None
