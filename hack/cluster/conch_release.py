"""Puts Conch on a cluster: images built from this checkout, the chart and the example model; says how to call it."""

import base64
import shlex
import time
from pathlib import Path
from urllib.parse import urlsplit

from cluster.checkout_images import ROOT, check_builder, ensure_images
from cluster.errors import ClusterError
from cluster.provider import Access, Provider
from cluster.shell import Shell, say
from images.image_names import Naming

_CHART = ROOT / "charts" / "conch"
_VALUES = Path(__file__).with_name("values.yaml")
_EXAMPLE = ROOT / "examples" / "tiny-chat.yaml"
_NAMESPACE = "conch"
_KEYS_SECRET = "conch-api-keys"


def bring_up(provider: Provider, shell: Shell) -> str:
    """Do all of it and return three lines of shell with what a client needs."""
    began = time.monotonic()
    check_builder(provider, shell)
    access = provider.up()
    if access.ingress_url is None:
        raise ClusterError("Set CONCH_TEST_INGRESS_URL to where the ingress of CONCH_TEST_KUBECONFIG answers.")
    ingress = urlsplit(access.ingress_url)
    host = _host(ingress.hostname or "")
    url = f"{ingress.scheme}://{host}{f':{ingress.port}' if ingress.port else ''}/v1"
    release = _Release(access, shell, ensure_images(provider, shell))
    release.install(host)
    release.apply_example()
    say(f"Conch answers at {url} after {time.monotonic() - began:.0f} s.")
    key = shlex.quote(release.api_key())
    return f"{access.exports()}\nexport OPENAI_BASE_URL={url}\nexport OPENAI_API_KEY={key}"


def _host(name: str) -> str:
    """Return the name for the ingress rule, which cannot be an address."""
    return "localhost" if name == "127.0.0.1" else name


class _Release:
    """The chart's release and the example, by way of helm and kubectl."""

    def __init__(self, access: Access, shell: Shell, naming: Naming) -> None:
        path = shell.environment.get("PATH", "")
        self._shell = shell.with_variables(
            KUBECONFIG=str(access.kubeconfig), PATH=f"{access.tools}:{path}" if access.tools else path
        )
        self._naming = naming

    def install(self, host: str) -> None:
        """Install or upgrade the chart and wait for its pods."""
        naming = self._naming
        ours = {
            "images.prefix": naming.prefix,
            "images.tag": naming.version,
            "redis.image": naming.image("redis").reference,
        }
        values = {"ingress.host": host, **ours}
        options = [word for name, value in values.items() for word in ("--set-string", f"{name}={value}")]
        where = ("--namespace", _NAMESPACE, "--create-namespace", "--wait", "--timeout=5m")
        # A definition that something else has left there is taken over: it is the same one.
        self._run(
            "helm", "upgrade", "--install", "conch", _CHART, "--values", _VALUES, *options, *where, "--take-ownership"
        )

    def apply_example(self) -> None:
        """Apply the example model and wait until it serves."""
        self._run("kubectl", "apply", "-f", _EXAMPLE)
        self._run("kubectl", "wait", "--for=condition=Ready", f"-f={_EXAMPLE}", "--timeout=5m")

    def api_key(self) -> str:
        """Return the first key of the release's Secret."""
        query = ("get", "secret", _KEYS_SECRET, "--namespace", _NAMESPACE, "-o", "jsonpath={.data.keys}")
        first = base64.b64decode(self._shell.run("kubectl", *query)).decode().splitlines()[0]
        return first.split()[-1].rpartition(":")[2]

    def _run(self, *command: str | Path) -> None:
        for line in self._shell.run(*command).splitlines():
            say(line)
