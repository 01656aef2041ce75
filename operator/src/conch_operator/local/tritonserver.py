"""Finds the tritonserver inside the installed `nvidia-pytriton` wheel and says how to start it.

The wheel holds the server, its Python backend and one stub executable per Python version, but the backend looks for
the stub at another place, so it is linked there. Nothing is started here: `local.supervisor` and tests run the command.
"""

import os
import secrets
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from conch_operator.triton.server_options import KEEPALIVE

_LOOPBACK = "127.0.0.1"
_STUB = "triton_python_backend_stub"


class TritonUnavailable(Exception):
    """The server cannot run on this machine; the message names what to install."""


@dataclass(frozen=True, slots=True)
class TritonInstallation:
    """An installed tritonserver, ready to be started by this interpreter."""

    folder: Path
    libpython: Path
    """The folder of the interpreter's shared library, which the stub needs."""

    @property
    def binary(self) -> Path:
        """Return the server's executable."""
        return self.folder / "bin" / "tritonserver"


@dataclass(frozen=True, slots=True)
class TritonPorts:
    """The ports of one server, all on 127.0.0.1."""

    http: int
    grpc: int
    metrics: int


@dataclass(frozen=True, slots=True)
class TritonLaunch:
    """One server to start."""

    repository: Path
    models: tuple[str, ...]
    """The models to load at start; others in the repository stay unloaded."""
    ports: TritonPorts
    shm_prefix: str
    """From `new_shm_prefix`; whoever ends the server removes shared memory that begins with it."""
    exit_timeout_s: int = 8
    """From a request to end until requests in flight are given up."""


def find_triton(search: Iterable[Path] | None = None) -> TritonInstallation:
    """Find the installed server and make it usable by this interpreter; raises TritonUnavailable."""
    folder = _wheel_folder(_package_folders() if search is None else search)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    libpython = _libpython_folder(version)
    _link_stub(folder, version)
    return TritonInstallation(folder, libpython)


def new_shm_prefix() -> str:
    """Return a prefix for shared-memory regions that no other server has."""
    return f"conch_{os.getpid()}_{secrets.token_hex(4)}_"


def triton_arguments(triton: TritonInstallation, launch: TritonLaunch) -> tuple[str, ...]:
    """Return the command line.

    A model that fails to load leaves the server running and not ready: its repository index then tells the reason.
    """
    options: dict[str, object] = {
        "model-repository": launch.repository,
        "backend-directory": triton.folder / "backends",
        "cache-directory": triton.folder / "caches",
        "backend-config": f"python,shm-region-prefix-name={launch.shm_prefix}",
        "model-control-mode": "explicit",
        "exit-on-error": "false",
        "exit-timeout-secs": launch.exit_timeout_s,
        "http-address": _LOOPBACK,
        "http-port": launch.ports.http,
        "http-thread-count": 2,
        "grpc-address": _LOOPBACK,
        "grpc-port": launch.ports.grpc,
        "grpc-infer-allocation-pool-size": 64,
        "metrics-address": _LOOPBACK,
        "metrics-port": launch.ports.metrics,
        "allow-gpu-metrics": "false",
        "allow-cpu-metrics": "false",
        "log-info": "false",
        "log-warning": "false",
        **KEEPALIVE,
    }
    return (
        str(triton.binary),
        "--disable-auto-complete-config",
        *(f"--{name}={value}" for name, value in options.items()),
        *(f"--load-model={name}" for name in launch.models),
    )


def triton_environment(triton: TritonInstallation, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment: ours, with this interpreter first on PATH, which is how the stub finds its packages."""
    environment = {**environ, "PATH": _joined(str(Path(sys.executable).parent), environ.get("PATH"))}
    if triton.libpython not in _system_library_folders():
        environment["LD_LIBRARY_PATH"] = _joined(str(triton.libpython), environ.get("LD_LIBRARY_PATH"))
    return environment


def _package_folders() -> Iterable[Path]:
    spec = find_spec("pytriton")
    return [Path(path) for path in (spec.submodule_search_locations or ())] if spec else []


def _wheel_folder(packages: Iterable[Path]) -> Path:
    for package in packages:
        folder = package / "tritonserver"
        if (folder / "bin" / "tritonserver").is_file():
            return folder
    raise TritonUnavailable(
        "No tritonserver is installed for this Python. Install its wheel: pip install --no-deps nvidia-pytriton"
    )


def _libpython_folder(version: str) -> Path:
    name = f"libpython{version}.so.1.0"
    built = sysconfig.get_config_var("LIBDIR")
    folders = [*([Path(built)] if built else []), *_system_library_folders()]
    for folder in folders:
        if (folder / name).exists():
            return folder
    raise TritonUnavailable(
        f"{name} is missing, which Triton's Python backend needs. On Debian install it with: "
        f"apt-get install libpython{version}"
    )


def _system_library_folders() -> list[Path]:
    multiarch = sysconfig.get_config_var("MULTIARCH")
    triplets = [f"/usr/lib/{multiarch}", f"/lib/{multiarch}"] if multiarch else []
    return [Path(folder) for folder in (*triplets, "/usr/lib64", "/lib64", "/usr/lib", "/lib", "/usr/local/lib")]


def _link_stub(folder: Path, version: str) -> None:
    stub = folder / "python_backend_stubs" / version / _STUB
    link = folder / "backends" / "python" / _STUB
    if not stub.is_file():
        known = ", ".join(sorted(path.parent.name for path in folder.glob(f"python_backend_stubs/*/{_STUB}")))
        raise TritonUnavailable(
            f"The installed tritonserver has no stub for Python {version}; it has {known or 'none'}."
        )
    target = os.path.relpath(stub, link.parent)
    if link.is_symlink() and os.readlink(link) == target:
        return
    draft = link.with_name(f"{_STUB}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        draft.symlink_to(target)
        draft.replace(link)
    except OSError as error:
        raise TritonUnavailable(f"The Python stub cannot be linked at {link}: {error.strerror}.") from error


def _joined(first: str, rest: str | None) -> str:
    return f"{first}{os.pathsep}{rest}" if rest else first
