import subprocess
import sys
import time
from pathlib import Path

from cluster.shell import Shell


def test_programs_of_this_machine_see_no_proxy_and_downloads_do() -> None:
    shell = Shell.without_proxies({"HTTPS_PROXY": "http://proxy.example", "HOME": "/root"})
    assert "HTTPS_PROXY" not in shell.environment
    assert shell.with_variables(A="1").proxied == {"HTTPS_PROXY": "http://proxy.example", "HOME": "/root", "A": "1"}


def test_what_a_program_has_started_ends_when_we_are_ended(tmp_path: Path) -> None:
    made, code = (
        tmp_path / "made",
        "import sys; from cluster.shell import Shell; Shell(ENV, ENV).show('sh', '-c', sys.argv[1])",
    )
    ended = "import signal; signal.signal(signal.SIGTERM, lambda *_: sys.exit(143)); "
    script = f"trap 'rm {made}; exit 143' TERM; touch {made}; sleep 600 & wait"
    program = f"import os, sys; ENV = dict(os.environ); {ended}{code}"
    environ = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(__file__).parents[4] / "hack")}
    with subprocess.Popen([sys.executable, "-c", program, script], env=environ) as process:
        deadline = time.monotonic() + 60
        while not made.exists():
            assert time.monotonic() < deadline, "the program did not start"
            time.sleep(0.02)
        process.terminate()
        assert process.wait(timeout=30) == 143
    assert not made.exists()
