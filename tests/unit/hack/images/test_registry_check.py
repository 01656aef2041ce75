import asyncio
import socket

import pytest
from aiohttp import web

from images.build_tools import BuildFailed
from images.registry_check import check_answers, registry_of
from testkit.servers.catch_all_http import every_path


@pytest.mark.parametrize(
    ("prefix", "registry"),
    [
        ("registry.example.com/conch", "registry.example.com"),
        ("registry.example.com:5000", "registry.example.com:5000"),
        ("localhost/a/b_c", "localhost"),
        ("[::1]:5000/conch", "[::1]:5000"),
        ("somebody", None),
        ("somebody/conch", None),
    ],
)
def test_a_prefix_names_its_registry(prefix: str, registry: str | None) -> None:
    assert registry_of(prefix) == registry


@pytest.mark.parametrize(
    "prefix", ["https://registry.example.com", "registry.example.com/conch:1", "a b", "x/", "/x", "x//y", "x@y", "x/Y"]
)
def test_what_no_image_can_be_called_is_refused(prefix: str) -> None:
    with pytest.raises(BuildFailed, match=r"without https://, without a tag and a slash"):
        registry_of(prefix)


@pytest.mark.parametrize("status", [200, 401, 404])
async def test_whoever_answers_is_a_registry_so_far(status: int) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status)

    async with every_path(answer) as port:
        await asyncio.to_thread(check_answers, f"127.0.0.1:{port}")


async def test_a_registry_that_does_not_answer_is_told_before_anything_is_built() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        registry = f"127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(BuildFailed, match=rf"{registry} does not answer: .*refused.*Nothing was built"):
            check_answers(registry)
