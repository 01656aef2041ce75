import os
import sys
from pathlib import Path

import pytest

from conch_operator.local.tritonserver import (
    TritonInstallation,
    TritonLaunch,
    TritonPorts,
    TritonUnavailable,
    find_triton,
    new_shm_prefix,
    triton_arguments,
    triton_environment,
)

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


def _wheel(package: Path, *, versions: tuple[str, ...] = (VERSION,)) -> Path:
    server = package / "tritonserver"
    files = ["bin/tritonserver", "backends/python/libtriton_python.so"]
    files += [f"python_backend_stubs/{version}/triton_python_backend_stub" for version in versions]
    for name in files:
        path = server / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return server


def test_the_stub_of_this_python_is_linked_and_stays_linked(tmp_path: Path) -> None:
    server = _wheel(tmp_path)
    for _ in range(2):
        triton = find_triton([tmp_path])
    link = server / "backends/python/triton_python_backend_stub"
    assert triton.binary == server / "bin" / "tritonserver"
    assert link.resolve() == server / "python_backend_stubs" / VERSION / "triton_python_backend_stub"
    assert [path.name for path in link.parent.iterdir() if path.name.startswith("triton_python")] == [link.name]


def test_a_stub_of_another_python_is_replaced(tmp_path: Path) -> None:
    server = _wheel(tmp_path)
    link = server / "backends/python/triton_python_backend_stub"
    link.symlink_to("elsewhere")
    find_triton([tmp_path])
    assert VERSION in os.readlink(link)


def test_a_missing_wheel_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(TritonUnavailable, match="pip install --no-deps nvidia-pytriton"):
        find_triton([tmp_path])


def test_a_wheel_without_a_stub_for_this_python_says_which_it_has(tmp_path: Path) -> None:
    _wheel(tmp_path, versions=("2.6", "2.7"))
    with pytest.raises(TritonUnavailable, match=rf"no stub for Python {VERSION}; it has 2\.6, 2\.7"):
        find_triton([tmp_path])


def _launch(prefix: str = "p_") -> TritonLaunch:
    return TritonLaunch(Path("/repository"), ("a", "b"), TritonPorts(1, 2, 3), prefix)


def test_the_server_listens_on_this_machine_alone_and_loads_what_it_is_told() -> None:
    arguments = triton_arguments(TritonInstallation(Path("/t"), Path("/lib")), _launch())
    assert [word for word in arguments if "address" in word] == [
        "--http-address=127.0.0.1",
        "--grpc-address=127.0.0.1",
        "--metrics-address=127.0.0.1",
    ]
    assert arguments[-2:] == ("--load-model=a", "--load-model=b")
    assert "--model-control-mode=explicit" in arguments
    assert "--exit-on-error=false" in arguments
    assert "--backend-config=python,shm-region-prefix-name=p_" in arguments


def test_this_interpreter_comes_first_on_the_path() -> None:
    environment = triton_environment(TritonInstallation(Path("/t"), Path("/usr/lib")), {"PATH": "/bin", "LANG": "C"})
    assert environment == {"PATH": f"{Path(sys.executable).parent}:/bin", "LANG": "C"}


def test_a_library_outside_the_system_is_named_to_the_loader() -> None:
    environment = triton_environment(TritonInstallation(Path("/t"), Path("/opt/python/lib")), {"LD_LIBRARY_PATH": "/x"})
    assert environment["LD_LIBRARY_PATH"] == "/opt/python/lib:/x"


def test_every_server_has_its_own_shared_memory() -> None:
    assert new_shm_prefix() != new_shm_prefix()
