"""What the operator makes for each runtime is what an API server takes."""

import json

import pytest

from testkit.builders.every_runtime import SPECS, rendered
from testkit.kubernetes.cluster import Namespace


@pytest.mark.parametrize("name", SPECS)
def test_the_api_server_accepts_what_is_made(namespace: Namespace, name: str) -> None:
    for made in rendered(name):
        made["metadata"]["namespace"] = namespace.name
        text = json.dumps(made)
        apply = ("apply", "--server-side", "--dry-run=server", "--field-manager=conch-operator", "--validate=strict")
        said = namespace.kubectl(*apply, "-f", "-", stdin=text)
        assert "serverside-applied (server dry run)" in said
