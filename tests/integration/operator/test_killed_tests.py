"""A test run that is killed takes with it what its tests have started."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from testkit.processes.conch_up import wait_until
from testkit.processes.tied import tied

from .conftest import alive

SUPPORT = Path(__file__).parents[2] / "support"
STARTS_CONCH = """
import sys, time
from pathlib import Path
from testkit.processes.conch_up import EXAMPLE, ConchUp

conch = ConchUp(Path(sys.argv[1]) / "state", EXAMPLE)
conch.start()
time.sleep(600)
"""


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM])
def test_a_conch_up_ends_with_the_test_run_that_started_it(tmp_path: Path, sent: signal.Signals) -> None:
    environ = os.environ | {"PYTHONPATH": str(SUPPORT)}  # noqa: TID251
    command = tied([sys.executable, "-c", STARTS_CONCH, str(tmp_path)])
    with subprocess.Popen(command, env=environ, start_new_session=True) as run:
        own = psutil.Process(run.pid)
        wait_until(lambda: any(p.name() == "tritonserver" for p in own.children(recursive=True)), "an engine")
        started = own.children(recursive=True)
        run.send_signal(sent)
        try:
            wait_until(lambda: alive(started) == [], "the end of all that it started")
        finally:
            for process in alive(started):
                process.kill()
