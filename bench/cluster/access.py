"""The cluster of `make cluster` as the benchmark sees it: kubectl, the ingress, and the gateway behind it."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from bench.processes import CannotMeasure

NAMESPACE = "default"
"""Where the release of `make cluster` looks for models."""
_GATEWAY = ("get", "service", "-n", "conch", "conch-gateway", "-o", "jsonpath={.spec.clusterIP}:{.spec.ports[0].port}")


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """How the cluster is reached."""

    ingress: str
    """The API's base URL through the ingress."""
    direct: str
    """The same without the ingress: only from the cluster's node."""
    key: str

    @classmethod
    async def find(cls, environ: Mapping[str, str]) -> "ClusterAccess":
        """Read what `make cluster` printed; raises CannotMeasure without it."""
        missing = [name for name in ("KUBECONFIG", "OPENAI_BASE_URL", "OPENAI_API_KEY") if not environ.get(name)]
        if missing:
            raise CannotMeasure(f'{", ".join(missing)} not set: eval "$(make -s cluster)" first')
        gateway = await kubectl(*_GATEWAY)
        return cls(environ["OPENAI_BASE_URL"], f"http://{gateway}/v1", environ["OPENAI_API_KEY"])


async def kubectl(*words: str, text: str = "") -> str:
    """Run kubectl and return what it prints; raises CannotMeasure."""
    process = await asyncio.create_subprocess_exec(
        "kubectl",
        *words,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, error = await process.communicate(text.encode())
    if process.returncode:
        raise CannotMeasure(f"kubectl {' '.join(words)}: {error.decode().strip()}")
    return out.decode()


@asynccontextmanager
async def model(name: str, *, tokens_per_second: int = 0) -> AsyncIterator[None]:
    """Apply a ModelDeployment of the example model, and delete it and its pods after the body."""
    cpu = {"maxBatchSize": 16, "tokensPerSecond": tokens_per_second}
    spec = {"kind": "LLM", "source": {"path": "tiny-chat"}, "engine": {"cpu": cpu}}
    made = {"apiVersion": "conch.dev/v1alpha1", "kind": "ModelDeployment", "metadata": {"name": name}, "spec": spec}
    await kubectl("apply", "-n", NAMESPACE, "-f", "-", text=json.dumps(made))
    try:
        yield
    finally:
        await kubectl("delete", "-n", NAMESPACE, "modeldeployment", name, "--ignore-not-found")
        await kubectl("wait", "-n", NAMESPACE, "--for=delete", "pod", "-l", label(name), "--timeout=90s")


def label(name: str) -> str:
    """Return what selects a model's pods."""
    return f"conch.dev/model-deployment={name}"


async def watch(*words: str) -> AsyncIterator[dict[str, Any]]:
    """Give every version of what these words select, for ever."""
    process = await asyncio.create_subprocess_exec(
        "kubectl", "get", "-n", NAMESPACE, *words, "--watch", "-o", "json", stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    decoder, held = json.JSONDecoder(), ""
    try:
        while chunk := await process.stdout.read(65536):
            held = (held + chunk.decode()).lstrip()
            while held:
                try:
                    found, end = decoder.raw_decode(held)
                except json.JSONDecodeError:
                    break  # the rest of it comes with the next chunk
                held = held[end:].lstrip()
                yield found
    finally:
        process.kill()
        await process.wait()
