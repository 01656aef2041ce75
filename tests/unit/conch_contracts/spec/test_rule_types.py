"""The types refuse what the API server refuses; the table is run against a real one too."""

import pytest

from conch_contracts.modeldeployment import InvalidModelDeployment, parse
from conch_contracts.spec.fields import parse_quantity, quantity_value
from testkit.bad_models import CASES, NAMES_ACCEPTED, NAMES_REFUSED, Case, model


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_bad_spec_is_refused_by_name_and_its_twin_is_not(case: Case) -> None:
    parse(model(case.accepted))
    with pytest.raises(InvalidModelDeployment) as caught:
        parse(model(case.refused))
    assert case.field in str(caught.value)
    assert case.says in str(caught.value)


@pytest.mark.parametrize("name", NAMES_ACCEPTED)
def test_a_short_label_is_a_name(name: str) -> None:
    assert parse(model({}, name)).metadata.name == name


@pytest.mark.parametrize("name", NAMES_REFUSED)
def test_what_is_no_short_label_is_no_name(name: str) -> None:
    with pytest.raises(InvalidModelDeployment, match=r"metadata\.name"):
        parse(model({}, name))


@pytest.mark.parametrize(
    ("smaller", "larger"),
    [("999m", "1"), ("1000Ki", "1Mi"), ("1M", "1Mi"), ("1.5", "2"), ("1G", "1Gi"), ("999u", "1m")],
)
def test_quantities_are_compared_as_kubernetes_compares_them(smaller: str, larger: str) -> None:
    assert quantity_value(smaller) < quantity_value(larger)


def test_a_quantity_may_be_a_number() -> None:
    assert parse_quantity(2) == "2"
