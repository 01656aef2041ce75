"""Quantities count as they do in Kubernetes."""

import pytest

from conch_contracts.spec.quantities import parse_quantity, quantity_value


@pytest.mark.parametrize(
    ("smaller", "larger"),
    [("999m", "1"), ("1000Ki", "1Mi"), ("1M", "1Mi"), ("1.5", "2"), ("1G", "1Gi"), ("999u", "1m")],
)
def test_quantities_are_compared_as_kubernetes_compares_them(smaller: str, larger: str) -> None:
    assert quantity_value(smaller) < quantity_value(larger)


def test_a_quantity_may_be_a_number() -> None:
    assert parse_quantity(2) == "2"
