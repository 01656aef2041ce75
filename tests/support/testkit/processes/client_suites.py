"""Runs suites of `e2e/` in processes of their own: with other packages than this one has, or against another Conch."""

import os
import subprocess
import sys
from collections.abc import Mapping
from types import MappingProxyType
from urllib.parse import urlsplit

from testkit.processes.conch_up import ROOT

PACKAGES = ROOT / ".venv"
_E2E = ROOT / "tests" / "e2e"
_CLIENTS = "clients/"
_NOTHING: Mapping[str, str] = MappingProxyType({})


def passed(
    suite: str,
    base_url: str,
    packages: str | None = None,
    *,
    plugins: tuple[str, ...] = (),
    settings: Mapping[str, str] = _NOTHING,
) -> list[str]:
    """Run a file or folder of `e2e/` and return the names of what passed of it; nothing may fail.

    `packages` names a folder of .venv whose packages come before those of this process. `settings` are variables that
    the clients read, such as OPENAI_API_KEY.
    """
    command = [sys.executable, "-m", "pytest", str(_E2E / suite), "-q", "-rA", "-p", "no:cacheprovider"]
    environment = {**os.environ, "OPENAI_BASE_URL": base_url, **settings}  # noqa: TID251
    if packages is not None:
        folder = PACKAGES / packages
        assert folder.is_dir(), "Run `hack/setup tests`: it installs the clients."
        environment["PYTHONPATH"] = str(folder)
    if suite.startswith(_CLIENTS):
        spoken_to = urlsplit(settings.get("http_proxy", base_url)).hostname
        command += ["-c", str(_E2E / _CLIENTS / "pytest.ini"), f"--allow-hosts={spoken_to}"]
        environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    for plugin in plugins:
        command += ["-p", plugin]
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-30000:] + run.stderr[-1000:]
    names = [line.partition("::")[2] for line in run.stdout.splitlines() if line.startswith("PASSED ")]
    assert names
    return names
