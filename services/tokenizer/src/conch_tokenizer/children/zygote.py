"""The process that children are forked from: it imports transformers once, so that a new child costs milliseconds.

`python -m conch_tokenizer.children.zygote <control fd> <limits as JSON>` is started by `spawner`. The service itself
has threads and connections and must not be forked; this process has one thread and nothing but its control socket. Each
control message is one of

    b"F <number>" with one file descriptor     fork a child that talks over it
    b"K <number>"                              kill that child

When the service goes, however it goes, the control socket closes and every child dies with this process.
"""

import ctypes
import gc
import logging
import os
import resource
import select
import signal
import socket
import sys

import orjson

from conch_kit import logs
from conch_tokenizer.children.child import Child, LoadedTokenizers
from conch_tokenizer.children.grammar_checker import GrammarChecker
from conch_tokenizer.children.limits import ChildLimits

log = logging.getLogger(__name__)

_PR_SET_PDEATHSIG = 1
_REAP_INTERVAL_S = 1.0


class Zygote:
    """Forks, kills and reaps children as the control socket says."""

    def __init__(self, control: socket.socket, limits: ChildLimits) -> None:
        self._control = control
        self._limits = limits
        self._children: dict[int, int] = {}

    def serve(self) -> None:
        """Obey until the control socket closes; then kill every child."""
        try:
            while True:
                readable, _, _ = select.select([self._control], [], [], _REAP_INTERVAL_S)
                self._reap()
                if readable and not self._obey():
                    return
        finally:
            for number in list(self._children):
                self._kill(number)

    def _obey(self) -> bool:
        message, descriptors, _, _ = socket.recv_fds(self._control, 64, 1)
        if not message:
            return False
        order, _, number = message.decode().partition(" ")
        if order == "F":
            self._fork(int(number), descriptors[0])
        else:
            self._kill(int(number))
        return True

    def _fork(self, number: int, descriptor: int) -> None:
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._control.close()
            _become_child(parent, socket.socket(fileno=descriptor), self._limits)
        os.close(descriptor)
        self._children[number] = pid

    def _kill(self, number: int) -> None:
        # A child that has ended stays a zombie until _reap, so its process id cannot belong to anyone else.
        if (pid := self._children.get(number)) is not None:
            os.kill(pid, signal.SIGKILL)

    def _reap(self) -> None:
        for number, pid in list(self._children.items()):
            if os.waitpid(pid, os.WNOHANG)[0]:
                del self._children[number]


def _become_child(parent: int, connection: socket.socket, limits: ChildLimits) -> None:
    """Serve in this freshly forked process and end it; never returns."""
    status = 1
    try:
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == parent:
            resource.setrlimit(resource.RLIMIT_AS, (limits.memory_bytes, limits.memory_bytes))
            tokenizers, grammars = LoadedTokenizers(limits.models_in_memory), GrammarChecker(limits)
            Child(connection, tokenizers, grammars, max_text_bytes=limits.max_text_bytes).serve()
        status = 0
    except OSError:
        status = 0  # The service closed the connection while an answer was on its way.
    except BaseException:
        log.exception("A child ended.")
    finally:
        os._exit(status)


def main(arguments: list[str]) -> None:
    """Run until the service is gone."""
    logs.configure("WARNING", stream=sys.stderr)
    # The service decides when children end, also when a terminal or a supervisor signals the whole group.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with socket.socket(fileno=int(arguments[0])) as control:
        # What is imported stays for ever: children need not walk it in their collections, nor copy its pages.
        gc.collect()
        gc.freeze()
        Zygote(control, ChildLimits(**orjson.loads(arguments[1]))).serve()


if __name__ == "__main__":
    main(sys.argv[1:])
