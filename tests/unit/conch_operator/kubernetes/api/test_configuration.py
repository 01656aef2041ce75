import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from conch_operator.kubernetes.api.client import ApiError, KubernetesApi
from conch_operator.kubernetes.api.configuration import proxy_to, read_configuration
from conch_operator.kubernetes.api.kinds import POD
from testkit.kubernetes.watched_server import use_server

SERVER = "https://10.0.0.1:6443"
PROXY = "http://us:s3cret@proxy.example.com:3128"


@pytest.fixture(autouse=True)
def _nothing_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.mark.parametrize(
    ("named", "proxy"),
    [
        ({}, None),
        ({"https_proxy": PROXY}, PROXY),
        ({"http_proxy": PROXY}, None),
        ({"https_proxy": PROXY, "no_proxy": "10.0.0.1"}, None),
        ({"https_proxy": PROXY, "no_proxy": "example.com"}, PROXY),
        ({"https_proxy": "https://proxy.example.com"}, None),
    ],
)
def test_the_proxy_is_that_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, named: Mapping[str, str], proxy: str | None
) -> None:
    for name, value in named.items():
        monkeypatch.setenv(name, value)
    assert proxy_to(SERVER) == proxy


async def test_the_proxy_of_a_kubeconfig_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_server(1, tmp_path, monkeypatch, **{"proxy-url": "http://first.example.com"})
    monkeypatch.setenv("http_proxy", PROXY)
    assert (await read_configuration()).proxy == "http://first.example.com"


async def test_a_proxy_that_refuses_is_named_without_its_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as proxy:
        port = proxy.sockets[0].getsockname()[1]
        use_server(1, tmp_path, monkeypatch, server=SERVER)
        monkeypatch.setenv("https_proxy", f"http://us:s3cret@127.0.0.1:{port}")
        async with KubernetesApi() as api:
            with pytest.raises(ApiError, match="the proxy before the API server answers 407") as raised:
                await api.list_all(POD, None)
    assert "s3cret" not in str(raised.value)
