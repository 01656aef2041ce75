"""The repository that the operator makes for TensorRT-LLM's LLM API, on a real server; the model is the image's."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conch_contracts.names import EngineAddress
from conch_contracts.records import Dialect
from conch_kit.triton.client import TritonClient
from conch_kit.triton.declared_tensors import read_declared_tensors
from conch_kit.triton.http_client import TritonHttp
from conch_operator.probe.prober import Target
from conch_operator.probe.triton_request import TritonProbeClient
from testkit.builders.every_runtime import rendered
from testkit.engines.backend_stand_ins import install, parameter
from testkit.servers.triton import RunningTriton, triton_server

NAME = "chat.7b"
_ANNOTATION = re.compile(r"metadata\.annotations\['(.+)'\]")


def _template() -> dict[str, Any]:
    (deployment,) = [made for made in rendered("llm-api") if made["kind"] == "Deployment"]
    return deployment["spec"]["template"]


def _prepare(image: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Do what the init container does, with folders of this machine for its mounts."""
    template = _template()
    pod = template["spec"]
    (volume,) = [one for one in pod["volumes"] if one["name"] == "repository-files"]
    for item in volume["downwardAPI"]["items"]:
        field = _ANNOTATION.fullmatch(item["fieldRef"]["fieldPath"])
        assert field is not None, item
        file = folder / "files" / item["path"]
        file.parent.mkdir(parents=True)
        file.write_text(template["metadata"]["annotations"][field[1]])
    (container,) = [one for one in pod["initContainers"] if one["name"] == "repository"]
    *shell, _, _, _, name = container["command"]
    words = [*shell, str(image), str(folder / "files"), str(folder / "repository"), name]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=30)


@pytest.fixture(scope="module")
def triton(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTriton]:
    folder = tmp_path_factory.mktemp("llm-api")
    # As in the image: no batch size, nothing about streams, and settings of its own.
    changes = {
        "backend:": 'name: "tensorrt_llm"\nbackend:',
        "max_batch_size: 0\n": "",
        r"model_transaction_policy [^\n]*\n": "",
        **parameter("events", folder / "events"),
    }
    image = install(folder / "image", "tensorrt_llm", "tensorrt_llm", config="llmapi.pbtxt", changes=changes)
    (image / "1" / "model.yaml").write_text("model: TinyLlama/TinyLlama-1.1B-Chat-v1.0\n")
    done = _prepare(image, folder)
    assert done.returncode == 0, done.stderr
    with triton_server(folder / "repository", NAME, folder=folder, completes_configs=True) as server:
        yield server


async def test_the_images_model_serves_with_our_settings(triton: RunningTriton) -> None:
    address = EngineAddress(triton.grpc)
    async with TritonClient() as client, TritonHttp() as http:
        assert read_declared_tensors(await client.model_config(address, NAME)).decoupled
        await TritonProbeClient(client, http).probe(Target(address, NAME, Dialect.TENSORRTLLM))


def test_an_image_without_the_model_says_so(tmp_path: Path) -> None:
    done = _prepare(tmp_path / "none", tmp_path)
    assert done.returncode == 1
    assert re.fullmatch(r"The image has no \S+/none: name one that has it in spec.engine.image.\n", done.stderr)
