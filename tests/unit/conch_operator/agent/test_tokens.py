from dataclasses import replace
from typing import Any

import pytest
from pydantic import SecretStr

from conch_operator.agent.tokens import AgentOwner, AgentTokens, token_sha256
from testkit.builders.every_runtime import SPECS, TOKENS, rendered

OWNER = AgentOwner("models", "engine", "tiny")


def test_a_token_is_the_same_in_every_operator_of_a_release_and_another_for_each_owner() -> None:
    again = AgentTokens(SecretStr("of-these-tests-0123456789"))
    others = [replace(OWNER, **{field: "other"}) for field in ("namespace", "component", "name")]
    assert again.token(OWNER) == TOKENS.token(OWNER)
    assert len({TOKENS.token(owner) for owner in (OWNER, *others)}) == 4
    assert AgentTokens(SecretStr("another")).token(OWNER) != TOKENS.token(OWNER)


@pytest.mark.parametrize("name", SPECS)
def test_a_pod_shows_what_the_operator_sends_only_as_a_hash(name: str) -> None:
    (deployment,) = [one for one in rendered(name) if one["kind"] == "Deployment"]
    labels, namespace = deployment["metadata"]["labels"], deployment["metadata"]["namespace"]
    owner = AgentOwner(namespace, labels["app.kubernetes.io/component"], labels["conch.dev/model-deployment"])
    pod: dict[str, Any] = deployment["spec"]["template"]["spec"]
    (agent,) = [one for one in (*pod["initContainers"], *pod["containers"]) if one["name"] == "agent"]
    env = {one["name"]: one["value"] for one in agent["env"]}
    assert env["CONCH_TOKEN_SHA256"] == token_sha256(TOKENS.token(owner).encode())
    assert TOKENS.token(owner) not in str(deployment)
