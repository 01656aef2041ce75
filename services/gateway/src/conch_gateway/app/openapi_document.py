"""Serves the OpenAPI document, which `make generate` writes beside this module."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from conch_gateway.app.models_and_health import VERSION
from conch_gateway.http.paths import Answer, Endpoint, PathRequest

_FILE = Path(__file__).with_name("openapi.json")


def document_endpoint(*, keyed: bool) -> Mapping[tuple[str, str], Endpoint]:
    """Return what serves the document, by method and path; `keyed` says whether requests need an API key."""
    made: list[bytes] = []

    async def show(request: PathRequest) -> Answer:
        if not made:
            made.append(orjson.dumps(_document(keyed=keyed)))
        return Answer(made[0])

    return {("GET", "/openapi.json"): show}


def _document(*, keyed: bool) -> dict[str, Any]:
    document: dict[str, Any] = orjson.loads(_FILE.read_bytes())
    document["info"]["version"] = VERSION
    if keyed:
        return document
    del document["components"]["securitySchemes"]
    for operations in document["paths"].values():
        for operation in operations.values():
            operation.pop("security", None)
            operation["responses"].pop("401", None)
    return document
