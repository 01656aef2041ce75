"""The guard beside a model's process, with stand-ins for that and for its server."""

import signal
import subprocess
import sys

import psutil
import pytest

SERVER = "import signal, subprocess, sys; subprocess.Popen([sys.executable, '-c', sys.argv[1]]); signal.pause()"
"""Has one child, and stays whatever becomes of it."""
MODEL = """
import sys
from conch_runtime_cpu.server_guard import ServerGuard
guard = ServerGuard()
print("begun", flush=True)
sys.stdin.readline()
guard.end()
print("ended", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def server():
    command = [sys.executable, "-c", SERVER, MODEL]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout.readline() == "begun\n"
            yield process
        finally:
            process.kill()


def model_of(server: subprocess.Popen[str]) -> psutil.Process:
    (model,) = psutil.Process(server.pid).children()
    return model


def test_a_model_that_is_killed_takes_its_server_along_and_the_log_says_so(server):
    model_of(server).kill()
    assert server.wait(30) == -signal.SIGKILL
    assert "Fatal: the model's process has died" in server.stderr.read()


def test_a_model_that_has_ended_its_guard_goes_alone(server):
    model, guard = model_of(server), model_of(server).children()
    assert len(guard) == 1
    server.stdin.write("\n")
    server.stdin.flush()
    assert server.stdout.readline() == "ended\n"
    assert not guard[0].is_running()
    model.kill()
    assert server.poll() is None


def test_a_model_that_stands_still_is_not_dead(server):
    model = model_of(server)
    (guard,) = model.children()
    model.suspend()
    with pytest.raises(subprocess.TimeoutExpired):
        server.wait(1)
    assert guard.is_running()
    model.resume()


def test_a_server_that_has_ended_before_its_model_is_left_alone(server):
    model = model_of(server)
    (guard,) = model.children()
    model.suspend()  # it would end by itself, since nobody is there any more
    server.kill()
    server.wait(30)
    model.kill()
    psutil.wait_procs([guard], timeout=30)
    assert "Fatal" not in server.stderr.read()
