"""Amounts of CPU, memory, devices and disk in the values are what Kubernetes takes, or stop the installation."""

import subprocess
from collections.abc import Iterator, Mapping

import pytest

from generate.helm import Helm
from testkit.kubernetes.chart import IMAGES, default_values


def _sizes(values: Mapping[str, object], path: str = "") -> Iterator[str]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _sizes(value, f"{path}{name}.")
        elif name.lower().endswith("size"):
            yield f"{path}{name}"


SIZES = tuple(_sizes(default_values()))


@pytest.mark.parametrize(
    ("option", "resource"),
    [
        ("gateway.resources.limits.memory=1GB", "memory"),
        ("gateway.resources.limits.memory=1m", "memory"),
        ("tokenizer.resources.requests.cpu=1Mi", "cpu"),
        ("tokenizer.resources.requests.cpu=1.2.3", "cpu"),
        ("gateway.resources.limits.cpu=-1", "cpu"),
        ("gateway.resources.limits.mem=1Gi", "mem"),
        ("engines.initResources.limits.memory=100m", "memory"),
        ("engines.initResources.limits.ephemeral-storage=.", "ephemeral-storage"),
        ("engines.initResources.limits.cpu=-1", "cpu"),
        ("engines.initResources.limits.memory=64k", "memory"),
        ("engines.initResources.limits.memory=512", "memory"),
        ("engines.initResources.requests.ephemeral-storage=10", "ephemeral-storage"),
        (r"workers.embed.resources.limits.nvidia\.com/gpu=1.5", "nvidia.com"),
        (r"workers.embed.resources.limits.nvidia\.com/gpu=500m", "nvidia.com"),
    ],
)
def test_an_amount_that_is_none_stops_the_installation(helm: Helm, option: str, resource: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        helm.template(*IMAGES, "--set", option)
    assert resource in failed.value.stderr
    assert "don't meet the specifications of the schema" in failed.value.stderr


@pytest.mark.parametrize(
    "option",
    [
        "gateway.resources.limits.cpu=1.5",
        "gateway.resources.limits.memory=2e9",
        "tokenizer.resources.requests.ephemeral-storage=1.5Gi",
        "engines.initResources.limits.cpu=500m",
        "engines.initResources.limits.memory=1.5Gi",
        "engines.initResources.limits.memory=268435456",
        "engines.initResources.requests.ephemeral-storage=2e9",
        "engines.initResources.limits.hugepages-64Ki=64Ki",
        r"workers.embed.resources.limits.nvidia\.com/gpu=1",
        r"workers.embed.resources.limits.hugepages-2Mi=4Mi",
    ],
)
def test_an_amount_of_kubernetes_is_taken(helm: Helm, option: str) -> None:
    assert helm.template(*IMAGES, "--set", option)


@pytest.mark.parametrize("size", ["lots", "1.2.3Gi", "...", "256", "256m", "4GB", "-1Gi", "0Gi", "512k"])
def test_a_size_that_is_none_stops_the_installation(helm: Helm, size: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        helm.template(*IMAGES, *_each_size(size))
    assert [path for path in SIZES if f"/{path.replace('.', '/')}'" not in failed.value.stderr] == []


@pytest.mark.parametrize("size", ["256Mi", "1.5Gi", ".5G", "1T", "262144Ki", "1000k", "268435456"])
def test_a_size_of_kubernetes_is_taken(helm: Helm, size: str) -> None:
    assert helm.template(*IMAGES, *_each_size(size))


def _each_size(size: str) -> tuple[str, ...]:
    return tuple(word for path in SIZES for word in ("--set-string", f"{path}={size}"))


@pytest.mark.parametrize(
    ("at", "amounts"),
    [
        ("gateway.resources", ("memory", "2Gi", "1G")),
        ("workers.llm.resources", ("cpu", "2", "1500m")),
        ("redis.resources", ("memory", "3Gi", "2Gi")),
        ("engines.initResources", ("memory", "64Mi", "2Mi")),
    ],
)
def test_a_request_above_its_limit_stops_the_installation(helm: Helm, at: str, amounts: tuple[str, str, str]) -> None:
    name, request, limit = amounts
    with pytest.raises(subprocess.CalledProcessError) as failed:
        helm.template(
            *(*IMAGES, "--set-string", f"{at}.requests.{name}={request}", "--set-string", f"{at}.limits.{name}={limit}")
        )
    assert f"requests.{name} is {request}, more than limits.{name}, {limit}" in failed.value.stderr
