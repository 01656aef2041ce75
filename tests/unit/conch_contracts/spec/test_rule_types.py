"""The types refuse what the API server refuses; the table is run against a real one too."""

import pytest

from conch_contracts.modeldeployment import parse
from conch_contracts.problems import InvalidObject
from testkit.bad_models import CASES, NAMES_ACCEPTED, NAMES_REFUSED, Case, model


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_bad_spec_is_refused_by_name_and_its_twin_is_not(case: Case) -> None:
    parse(model(case.accepted))
    with pytest.raises(InvalidObject) as caught:
        parse(model(case.refused))
    assert case.field in str(caught.value)
    assert case.says in str(caught.value)


@pytest.mark.parametrize("name", NAMES_ACCEPTED)
def test_a_short_label_is_a_name(name: str) -> None:
    assert parse(model({}, name)).metadata.name == name


@pytest.mark.parametrize("name", NAMES_REFUSED)
def test_what_is_no_short_label_is_no_name(name: str) -> None:
    with pytest.raises(InvalidObject, match=r"metadata\.name"):
        parse(model({}, name))
