"""Which endpoint answers a method and a path."""

import pytest

from conch_gateway.http.paths import Answer, PathRequest, Paths
from conch_kit.errors import MethodNotAllowed, NotFound


def named(name: str):
    async def endpoint(request: PathRequest) -> Answer:
        return Answer(name.encode())

    endpoint.__name__ = name
    return endpoint


PATHS = Paths(
    {
        ("GET", "/things"): named("list"),
        ("GET", "/things/{name:path}"): named("get"),
        ("GET", "/kept/{id}"): named("look"),
        ("DELETE", "/kept/{id}"): named("delete"),
        ("POST", "/kept/{id}/cancel"): named("cancel"),
    },
    posts={"/work", "/things"},
)


@pytest.mark.parametrize(
    ("method", "path", "name", "parts"),
    [
        ("GET", "/things", "list", {}),
        ("GET", "/things/a/b c", "get", {"name": "a/b c"}),
        ("GET", "/things/a\nb", "get", {"name": "a\nb"}),
        ("GET", "/kept/1", "look", {"id": "1"}),
        ("DELETE", "/kept/1", "delete", {"id": "1"}),
        ("POST", "/kept/1/cancel", "cancel", {"id": "1"}),
    ],
)
def test_the_endpoint_is_found_with_the_parts_that_its_path_names(method, path, name, parts):
    endpoint, found = PATHS.find(method, path)
    assert (endpoint.__name__, found) == (name, parts)


@pytest.mark.parametrize("path", ["/", "/thing", "/things/", "/kept/", "/kept/1/2", "/kept/1/cancel/", "/work/1"])
def test_a_path_that_nobody_serves_is_not_found(path):
    with pytest.raises(NotFound):
        PATHS.find("GET", path)


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("DELETE", "/things", "GET, POST"),
        ("PUT", "/kept/1", "GET, DELETE"),
        ("GET", "/kept/1/cancel", "POST"),
        ("GET", "/work", "POST"),
        ("get", "/work", "POST"),
    ],
)
def test_another_method_is_told_which_would_do(method, path, allow):
    with pytest.raises(MethodNotAllowed) as caught:
        PATHS.find(method, path)
    assert (b"allow", allow.encode()) in caught.value.headers()
