from typing import Any

import pytest

from conch_operator.resources.network_policy import make_network_policy
from conch_operator.settings import NetworkPolicySettings

WORKERS, OPERATOR, PROMETHEUS = ({"podSelector": {"matchLabels": {"app": name}}} for name in ("w", "o", "p"))
SETTINGS: dict[str, Any] = {"enabled": True, "from": [WORKERS, OPERATOR], "agentFrom": [OPERATOR]}


@pytest.mark.parametrize(
    ("more", "engine", "callers"),
    [
        pytest.param(
            {"metricsFrom": [PROMETHEUS]},
            True,
            {8000: [WORKERS, OPERATOR], 8001: [WORKERS, OPERATOR], 8002: [PROMETHEUS], 9091: [OPERATOR]},
            id="engine",
        ),
        pytest.param(
            {},
            True,
            {8000: [WORKERS, OPERATOR], 8001: [WORKERS, OPERATOR], 8002: None, 9091: [OPERATOR]},
            id="everybody may read metrics",
        ),
        pytest.param({}, False, {9091: [OPERATOR]}, id="source reader"),
    ],
)
def test_a_port_is_open_to_those_who_call_it(
    more: dict[str, Any], engine: bool, callers: dict[int, list[Any] | None]
) -> None:
    settings = NetworkPolicySettings.model_validate(SETTINGS | more)
    policy = make_network_policy({}, {"a": "b"}, settings, engine=engine, downloads=False)
    rules = policy["spec"]["ingress"]
    assert {port["port"]: rule.get("from") for rule in rules for port in rule["ports"]} == callers
