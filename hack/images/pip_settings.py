"""Collects how this machine's pip reaches its package index, for the build stages.

The settings and the certificate authorities become build secrets: files that exist during a step and in no image.
"""

import ast
import configparser
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

_PASSED_ON = ("index-url", "extra-index-url", "trusted-host", "proxy", "timeout", "retries")
_AUTHORITIES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_CA_SECRET = "/run/secrets/ca"


def write(folder: Path, environ: Mapping[str, str]) -> Mapping[str, Path]:
    """Write the secrets into the folder and return them by their id."""
    found = _configured(environ)
    authorities = [found.get("cert"), *(environ.get(name) for name in _AUTHORITIES)]
    authority = next((Path(path) for path in authorities if path and Path(path).is_file()), None)
    settings = {name: found[name] for name in _PASSED_ON if name in found}
    configuration = configparser.RawConfigParser()
    configuration["global"] = settings | ({"cert": _CA_SECRET} if authority else {})
    pip_conf, ca = folder / "pip.conf", folder / "ca"
    pip_conf.touch(0o600)
    with pip_conf.open("w", encoding="utf-8") as file:
        configuration.write(file)
    ca.write_bytes(authority.read_bytes() if authority else b"")
    return {"pip_conf": pip_conf, "ca": ca}


def _configured(environ: Mapping[str, str]) -> dict[str, str]:
    """Return pip's own view of its files and variables; later lines are stronger, variables are the last."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(command, env=dict(environ), capture_output=True, text=True, check=False).stdout
    found: dict[str, str] = {}
    lines = [line.partition("=") for line in listed.splitlines()]
    for key, _, value in sorted(lines, key=lambda line: line[0].startswith(":env:")):
        found[key.rpartition(".")[2].removeprefix("default-")] = ast.literal_eval(value)
    return found
