"""The routers that are measured, each with its one version, how it is installed and how it is started."""

from dataclasses import dataclass

_HAPROXY = """\
global
    nbthread 1
    maxconn 8192
defaults
    mode http
    timeout connect 5s
    timeout client 300s
    timeout server 300s
    option http-no-delay
    http-reuse always
frontend clients
    bind 127.0.0.1:{port}
    default_backend workers
backend workers
    server worker 127.0.0.1:{upstream}
"""
_LITELLM = """\
model_list:
  - model_name: tiny-chat
    litellm_params:
      model: openai/tiny-chat
      api_base: http://127.0.0.1:{upstream}/v1
      api_key: bench
general_settings:
  dangerously_permit_weak_or_unset_master_key: true
"""


@dataclass(frozen=True, slots=True)
class Peer:
    """One router; `{port}`, `{upstream}`, `{metrics}` and `{configuration}` are filled in at the start."""

    name: str
    version: str
    arguments: tuple[str, ...]
    """The program and its arguments."""
    requirement: str | None = None
    """What pip installs into the peer's own virtual environment; None: Debian's package of this name and version."""
    configuration: str = ""

    @property
    def title(self) -> str:
        """Return its name with the version that is measured."""
        return f"{self.name} {self.version}"


def _rust_router(name: str, version: str, level: str) -> Peer:
    served = ("--host", "127.0.0.1", "--port", "{port}")
    routed = ("--worker-urls", "http://127.0.0.1:{upstream}", "--policy", "round_robin")
    quiet = ("--prometheus-host", "127.0.0.1", "--prometheus-port", "{metrics}", "--log-level", level)
    launch = ("python", "-m", f"{name.replace('-', '_')}.launch_router")
    return Peer(name, version, (*launch, *served, *routed, *quiet), f"{name}=={version}")


PEERS = (
    Peer("haproxy", "2.6.12", ("haproxy", "-db", "-f", "{configuration}"), configuration=_HAPROXY),
    _rust_router("sglang-router", "0.3.2", "warn"),
    _rust_router("vllm-router", "0.1.17", "warning"),
    Peer(
        "litellm",
        "1.106.2",
        ("litellm", "--config", "{configuration}", "--host", "127.0.0.1", "--port", "{port}", "--num_workers", "1"),
        "litellm[proxy]==1.106.2",
        _LITELLM,
    ),
)
