import asyncio
import sys
from pathlib import Path

from conch_operator.local.supervisor import Command, RestartPolicy, Supervisor
from testkit.waiting import eventually

STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(600)
"""


async def test_a_process_that_does_not_end_when_it_is_asked_to_is_killed_after_its_grace(tmp_path: Path) -> None:
    log = tmp_path / "log"

    async def command() -> Command:
        return Command((sys.executable, "-c", STUBBORN), {}, log)

    async with Supervisor() as supervisor:
        process = supervisor.supervise("stubborn", command, lambda: None, RestartPolicy(grace_s=0.1))
        await eventually(lambda: log.is_file() and "ready" in log.read_text(), "the process")
        process.stop()
        await asyncio.wait_for(process.stopped(), 30)
    assert process.pid is None
