"""Puts Conch on a cluster: images built from this checkout, the chart, the example model, and how to talk to it."""

import base64
import shlex
import time
from pathlib import Path
from urllib.parse import urlsplit

from cluster.errors import ClusterError
from cluster.provider import Access, Provider
from cluster.shell import Shell, say
from images.names import NAMES, Naming

_ROOT = Path(__file__).resolve().parents[2]
_CHART = _ROOT / "charts" / "conch"
_VALUES = Path(__file__).with_name("values.yaml")
_EXAMPLE = _ROOT / "examples" / "tiny-chat.yaml"
_ARCHIVES = _ROOT / ".conch" / "images"
_NAMESPACE = "conch"
_KEYS_SECRET = "conch-api-keys"


def bring_up(provider: Provider, shell: Shell) -> str:
    """Do all of it and return one line of shell with what a client needs."""
    began = time.monotonic()
    access = provider.up()
    _build_and_load(provider, shell)
    if not _CHART.exists():
        say("There is no chart in this checkout, so only the cluster and the images are ready.")
        return access.exports()
    if access.ingress_url is None:
        raise ClusterError("Set CONCH_TEST_INGRESS_URL to where the ingress of CONCH_TEST_KUBECONFIG answers.")
    ingress = urlsplit(access.ingress_url)
    host = _host(ingress.hostname or "")
    url = f"{ingress.scheme}://{host}{f':{ingress.port}' if ingress.port else ''}/v1"
    release = _Release(access, shell, Naming.from_environ(shell.environment))
    release.install(host)
    release.apply_example()
    say(f"Conch answers at {url} after {time.monotonic() - began:.0f} s.")
    return f"{access.exports()} OPENAI_BASE_URL={url} OPENAI_API_KEY={shlex.quote(release.api_key())}"


def _build_and_load(provider: Provider, shell: Shell) -> None:
    shell.show(_ROOT / "hack" / "images" / "build", "--archives", _ARCHIVES)
    naming = Naming.from_environ(shell.environment)
    provider.load([_ARCHIVES / naming.image(name).archive for name in NAMES])


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
        self._run("helm", "upgrade", "--install", "conch", _CHART, "--values", _VALUES, *options, *where)

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
