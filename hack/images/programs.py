"""Runs programs that end with us, and with what they have started: the steps of a build, for one.

Each has a group of processes of its own, which is ended when we are. Where programs run in threads, those do not hear
of that end and would be waited for: who has started the threads closes the `Programs` that run in them.
"""

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import IO

_ENDS = (signal.SIGINT, signal.SIGTERM)
GRACE_S = 10.0
"""How long a program may take to remove what it has made."""


class ProgramsClosed(Exception):
    """A program was ended, or not started, since nobody wants what comes of it."""


class Programs:
    """Runs programs in any thread, until it is closed."""

    def __init__(self) -> None:
        self._changes = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._closed = False

    def run(self, *command: str) -> subprocess.CompletedProcess[bytes]:
        """Run a program and return how it ended, with all that it said; raises ProgramsClosed."""
        with ExitStack() as stack:
            with self._changes:
                if self._closed:
                    raise ProgramsClosed
                process = stack.enter_context(running(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
                self._running.add(process)
            try:
                said, _ = process.communicate()
            finally:
                with self._changes:
                    self._running.discard(process)
        if self._closed:
            raise ProgramsClosed
        return subprocess.CompletedProcess(command, process.returncode, said)

    def close(self) -> None:
        """End what runs; nothing is run any more."""
        with self._changes:
            self._closed = True
            left = tuple(self._running)
        for process in left:
            _end(process, GRACE_S)


@contextmanager
def running(
    command: Sequence[str],
    *,
    stdout: int | IO[str],
    stderr: int | None = None,
    env: Mapping[str, str] | None = None,
    grace_s: float = GRACE_S,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program as long as the context lasts, and wait for its end; an exception ends its whole group."""
    with (
        ends_held() as let_in,
        subprocess.Popen(
            command,
            stdout=stdout,
            stderr=stderr,
            env=env,
            process_group=0,
            preexec_fn=_let_in if _hears_ends() else None,
        ) as process,
    ):
        try:
            let_in()
            yield process
        except BaseException:
            _end(process, grace_s)
            raise


@contextmanager
def ends_held() -> Iterator[Callable[[], None]]:
    """Hold back what ends us until the function that this gives is called, or the end of the context.

    A program is started in between: where an end came before we know the program, nobody would end that.
    """
    if not _hears_ends():
        yield lambda: None
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS)
    try:
        yield _let_in
    finally:
        _let_in()


def _hears_ends() -> bool:
    """Return whether what ends us is raised in this thread."""
    return threading.current_thread() is threading.main_thread()


def _let_in() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDS)


def _end(process: subprocess.Popen[bytes], grace_s: float) -> None:
    """End a program with its group, by force after a while."""
    with suppress(ProcessLookupError, subprocess.TimeoutExpired):
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(grace_s)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
