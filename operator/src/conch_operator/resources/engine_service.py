"""The headless Service that gives a model's engines a name, for people and dashboards; gateways use addresses."""

from typing import Any

from conch_contracts.names import TRITON_GRPC_PORT, TRITON_HTTP_PORT, TRITON_METRICS_PORT
from conch_operator.resources.metadata import child_name, metadata, selector
from conch_operator.state import DesiredModel

Object = dict[str, Any]


def make_engine_service(model: DesiredModel) -> Object:
    """Return the Service of a model's engines."""
    ports = {"http": TRITON_HTTP_PORT, "grpc": TRITON_GRPC_PORT, "metrics": TRITON_METRICS_PORT}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(model, child_name(model)),
        "spec": {
            "clusterIP": "None",
            "selector": selector(model),
            "ports": [{"name": name, "port": port, "targetPort": name} for name, port in ports.items()],
        },
    }
