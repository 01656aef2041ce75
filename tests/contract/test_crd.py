"""What is committed is what the types make, and every rule of it has an accepted and a refused example."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from conch_contracts.modeldeployment import ModelDeployment, ModelSpec
from conch_contracts.spec.addresses import LEADS_BACK
from conch_contracts.spec.engine import EngineSpec
from conch_contracts.spec.rule_types import validations_of
from conch_contracts.spec.source import CLIMBS
from generate import FILES
from generate.crd import crd, schema
from generate.structural_schema import NotStructural, structural
from testkit.bad_models import CASES

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", FILES)
def test_a_generated_file_is_up_to_date(name: str) -> None:
    path = ROOT / name
    committed = path.read_text(encoding="utf-8") if path.exists() else ""
    assert committed == FILES[name](), f"{name} is out of date. Run `make generate` and commit what it writes."


def test_every_rule_has_an_accepted_and_a_refused_example() -> None:
    # Those of the name, and what laptops may and clusters may not, have tests of their own in tests/kubernetes.
    transitions = {ModelSpec.same_kind.message, EngineSpec.same_runtime.message}
    of_the_name = {validation["message"] for validation in validations_of(ModelDeployment)}
    messages = (
        {rule["message"] for rule in _found(schema(), "x-kubernetes-validations")}
        - transitions
        - of_the_name
        - {CLIMBS, LEADS_BACK}
    )
    assert [text for text in messages if not any(case.says and case.says in text for case in CASES)] == []


def test_no_rule_says_more_than_a_terminal_can_show() -> None:
    rules = list(_found(schema(), "x-kubernetes-validations"))
    assert [rule["message"] for rule in rules if len(rule["message"]) > 1000] == []


def test_defaults_are_those_of_the_types() -> None:
    spec = schema()["properties"]["spec"]["properties"]  # type: ignore[index,call-overload]
    assert (spec["replicas"]["default"], spec["default"]["default"], spec["routing"]["default"]) == (1, False, {})
    routing = spec["routing"]["properties"]
    assert (routing["timeout"]["default"], routing["queue"]["properties"]["wait"]["default"]) == ("10m", "30s")
    assert "default" not in spec["generation"]


def test_the_message_is_the_last_column_that_every_get_shows() -> None:
    version: dict[str, Any] = crd()["spec"]["versions"][0]  # type: ignore[index]
    shown = [column["name"] for column in version["additionalPrinterColumns"] if not column.get("priority")]
    assert shown == ["Ready", "Reason", "Rollout", "Engines", "Wanted", "Served names", "Age", "Message"]


class _Unbounded(BaseModel):
    text: Annotated[str, Field(description="A text.")]


class _Undescribed(BaseModel):
    text: Annotated[str, Field(max_length=1)]


class _Float(BaseModel):
    number: Annotated[float | str, Field(description="A number or a text.")]


@pytest.mark.parametrize(
    ("model", "says"),
    [(_Unbounded, "has no maxLength"), (_Undescribed, "has no description"), (_Float, "alternatives")],
)
def test_a_type_that_is_not_structural_is_refused_by_name(model: type[BaseModel], says: str) -> None:
    with pytest.raises(NotStructural, match=says):
        structural(model)


def _found(part: object, key: str) -> Iterator[dict[str, str]]:
    """Yield every entry of the lists with this key, at any depth."""
    if isinstance(part, dict):
        yield from part.get(key, [])
        for value in part.values():
            yield from _found(value, key)
    elif isinstance(part, list):
        for value in part:
            yield from _found(value, key)
