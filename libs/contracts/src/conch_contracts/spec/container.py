"""What goes into the container that an engine runs in: image, arguments, environment, resources.

Whatever would undo Conch's own settings, load foreign code or hold a secret is refused by name.
"""

import re
from typing import Annotated

from pydantic import Field

from conch_contracts.spec.addresses import PORT
from conch_contracts.spec.fields import ObjectName, SpecPart
from conch_contracts.spec.quantities import Quantities, quantity_value
from conch_contracts.spec.rule_types import Obeys, Rule, matching, rule

DENIED_OPTIONS = (
    "--trust-remote-code",
    "--api-key",
    "--host",
    "--port",
    "--model-repository",
    "--model-store",
    "--model-control-mode",
    "--load-model",
    "--repository-poll-secs",
    "--allow-http",
    "--allow-grpc",
    "--allow-metrics",
    "--http-address",
    "--http-port",
    "--grpc-address",
    "--grpc-port",
    "--metrics-address",
    "--metrics-port",
    "--reuse-http-port",
    "--reuse-grpc-port",
    "--exit-timeout-secs",
    "--exit-on-error",
    "--backend-directory",
    "--repoagent-directory",
    "--cache-directory",
    "--grpc-keepalive-time",
    "--grpc-keepalive-timeout",
    "--grpc-keepalive-permit-without-calls",
    "--grpc-http2-max-pings-without-data",
    "--grpc-http2-min-recv-ping-interval-without-data",
    "--disable-auto-complete-config",
)
"""Set by Conch, or a way to code and data that the ModelDeployment's author should not get at."""

DENIED_VARIABLES = (
    "PATH",
    "ENV",
    "BASH_ENV",
    "GCONV_PATH",
    "PYTHONPATH",
    "PYTHONHOME",
    "PYTHONSTARTUP",
    "PYTHONINSPECT",
    "PYTHONUSERBASE",
    "PYTHONBREAKPOINT",
    "VLLM_SERVER_DEV_MODE",
    "VLLM_ALLOW_INSECURE_SERIALIZATION",
    "VLLM_ALLOW_RUNTIME_LORA_UPDATING",
    "VLLM_PLUGINS",
    "NVIDIA_VISIBLE_DEVICES",
)
DENIED_PREFIXES = ("LD_", "CONCH_")

_SECRET_VALUE = (
    "(^|[^A-Za-z0-9])(hf_[A-Za-z0-9]{20}|sk-[A-Za-z0-9_-]{20}|(AKIA|ASIA)[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{20}|"
    "npm_[A-Za-z0-9]{20}|github_pat_[A-Za-z0-9_]{20}|glpat-[A-Za-z0-9_-]{20}|nvapi-[A-Za-z0-9_-]{20}|"
    "xox[abprs]-[A-Za-z0-9-]{10}|AIza[0-9A-Za-z_-]{35}|[a-z0-9+.-]+://[^/@: ]*:[^/@ ]+@|"
    "eyJ[A-Za-z0-9_-]{10,}[.]eyJ|-----BEGIN [A-Z ]{0,30}PRIVATE KEY)"
)
_SECRET_NAME = "(?i)(^|_)(TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|KEY|KEY_ID)$|_PWD$|APIKEY$"
_PLAIN_NAME = (
    "(?i)(^|_)((MAX|MIN|NUM|PER|PAD|EOS|BOS|UNK|SEP|CLS|MASK|STOP|START|END|FIRST|LAST|NEXT)_TOKEN|"
    "(PUBLIC|CACHE|SORT|PRIMARY|PARTITION)_KEY)$"
)
"""Names that end as a secret's do and are none."""
_SECRET_REMEDY = "put it into a Secret and name that in source, as tokenSecretRef or credentialsSecretRef"


def _in_cel(texts: tuple[str, ...]) -> str:
    return f"[{', '.join(repr(text) for text in texts)}]"


def _option(argument: str) -> str:
    return argument.split("=")[0]


_NO_SECRET = Obeys(
    Rule(
        cel=f"!self.matches('{_SECRET_VALUE}')",
        message=f"must not hold a token or a key: {_SECRET_REMEDY}",
        holds=lambda text: re.search(_SECRET_VALUE, text) is None,
    )
)
_ALLOWED_OPTIONS = Obeys(
    Rule(
        cel=f"self.all(arg, !{_in_cel(DENIED_OPTIONS)}.exists(denied, denied.startsWith(arg.split('=')[0])))",
        message=f"args must not hold these options or a shorter form of one, remove it: {', '.join(DENIED_OPTIONS)}",
        holds=lambda args: not any(denied.startswith(_option(arg)) for arg in args for denied in DENIED_OPTIONS),
    )
)
_NAME_OF_A_VARIABLE = matching(
    "[A-Za-z_][A-Za-z0-9_.-]*", "must be a variable's name of letters, digits and _ . -, beginning with a letter or _"
)
_ALLOWED_VARIABLE = Obeys(
    Rule(
        cel=f"!(self in {_in_cel(DENIED_VARIABLES)}) && !{_in_cel(DENIED_PREFIXES)}.exists(p, self.startsWith(p))",
        message=f"env must not set these variables, remove it: {', '.join(DENIED_VARIABLES)}, "
        f"and all that begin with {' or '.join(DENIED_PREFIXES)}",
        holds=lambda name: name not in DENIED_VARIABLES and not name.startswith(DENIED_PREFIXES),
    )
)
_NO_SECRET_NAME = Obeys(
    Rule(
        cel=f"!self.matches('{_SECRET_NAME}') || self.matches('{_PLAIN_NAME}')",
        message=f"env must not hold secrets: {_SECRET_REMEDY}",
        holds=lambda name: re.search(_SECRET_NAME, name) is None or re.search(_PLAIN_NAME, name) is not None,
    )
)
_DIFFERENT_VARIABLES = Obeys(
    Rule(
        cel="self.all(one, self.exists_one(other, other.name == one.name))",
        message="env sets a variable twice; remove one of the two",
        holds=lambda env: len({variable.name for variable in env}) == len(env),
    )
)

ImageReference = Annotated[
    str,
    Field(max_length=512),
    matching(
        rf"[A-Za-z0-9][A-Za-z0-9.-]*(:{PORT}/[a-z0-9][a-z0-9._-]*)?(/[a-z0-9][a-z0-9._-]*)*"
        r"(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?(@sha256:[a-f0-9]{64})?",
        "must be an image, such as registry.example.com/team/engine:1.2 or one with a digest @sha256:...",
    ),
]

Argument = Annotated[
    str,
    Field(max_length=1024),
    matching(r"--[a-z0-9][a-z0-9-]*(=[^\x00-\x1f]*)?", "must be one option, written --name or --name=value"),
    _NO_SECRET,
]
Arguments = Annotated[tuple[Argument, ...], Field(max_length=32), _ALLOWED_OPTIONS]


class EnvVar(SpecPart):
    """One environment variable of the engine's container."""

    name: Annotated[str, Field(max_length=128), _NAME_OF_A_VARIABLE, _ALLOWED_VARIABLE, _NO_SECRET_NAME]
    """The variable's name. Variables that load code, undo Conch's settings or name a secret are refused."""
    value: Annotated[str, Field(max_length=4096), _NO_SECRET] = ""
    """Its value, which anybody who may read ModelDeployments can read. Default: empty."""


Environment = Annotated[tuple[EnvVar, ...], Field(max_length=64), _DIFFERENT_VARIABLES]


class ImagePullSecret(SpecPart):
    """A Secret of type kubernetes.io/dockerconfigjson in the ModelDeployment's namespace."""

    name: ObjectName
    """The Secret's name."""


class ResourcesSpec(SpecPart):
    """What one engine's container gets, as in a Pod."""

    limits: Quantities | None = None
    """The most that it may use, by resource: cpu, memory, nvidia.com/gpu. Default: none."""
    requests: Quantities | None = None
    """What its node keeps free for it, by resource. Default: the limits."""

    @rule(
        cel="!has(self.limits) || !has(self.requests) || self.requests.all(name, !(name in self.limits) || "
        "quantity(string(self.requests[name])).compareTo(quantity(string(self.limits[name]))) <= 0)",
        message="a request is above its limit: lower it in requests or raise it in limits",
    )
    def _requests_fit_limits(self) -> bool:
        limits, requests = self.limits or {}, self.requests or {}
        return all(quantity_value(requests[name]) <= quantity_value(limits[name]) for name in requests.keys() & limits)

    @rule(
        cel="!has(self.requests) || self.requests.all(name, !(name.contains('/') || name.startsWith('hugepages-')) || "
        "(has(self.limits) && name in self.limits && "
        "quantity(string(self.requests[name])).compareTo(quantity(string(self.limits[name]))) == 0))",
        message="devices and hugepages are not shared, so their request is their limit: remove them from requests, and "
        "set limits",
    )
    def _requests_of_devices_are_their_limits(self) -> bool:
        limits, requests = self.limits or {}, self.requests or {}
        return all(
            name in limits and quantity_value(amount) == quantity_value(limits[name])
            for name, amount in requests.items()
            if "/" in name or name.startswith("hugepages-")
        )
