"""The process that children are forked from: it imports transformers once, so that a new child costs milliseconds.

`python -m conch_tokenizer.children.zygote <control fd> <board fd> <limits as JSON>` is started by `spawner`. The
service itself has threads and connections and must not be forked; this process has one thread and nothing but its
control socket and the work board. Each control message is one of

    b"F <number> <row>" with two file descriptors   fork a child with this row of the work board, which talks over the
                                                    first, and gets lanes over the second
    b"K <number>"                                   kill that child

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
from conch_tokenizer.children.work_board import WorkBoard, WorkRow

log = logging.getLogger(__name__)

_PR_SET_PDEATHSIG = 1
_REAP_INTERVAL_S = 1.0


class Zygote:
    """Forks, kills and reaps children as the control socket says."""

    def __init__(self, control: socket.socket, board: WorkBoard, limits: ChildLimits) -> None:
        self._control = control
        self._board = board
        self._limits = limits
        self._children: dict[int, int] = {}

    def serve(self) -> None:
        """Obey until the control socket closes; the kernel kills every child when this process ends."""
        while True:
            readable, _, _ = select.select([self._control], [], [], _REAP_INTERVAL_S)
            self._reap()
            if readable and not self._obey():
                return

    def _obey(self) -> bool:
        message, descriptors, _, _ = socket.recv_fds(self._control, 64, 2)
        if not message:
            return False
        order, *numbers = message.decode().split()
        if order == "F":
            self._fork(int(numbers[0]), self._board.row(int(numbers[1])), descriptors)
        else:
            self._kill(int(numbers[0]))
        return True

    def _fork(self, number: int, row: WorkRow, descriptors: list[int]) -> None:
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._control.close()
            service, handed_over = (socket.socket(fileno=descriptor) for descriptor in descriptors)
            _become_child(parent, service, handed_over, row, self._limits)
        for descriptor in descriptors:
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


def _become_child(
    parent: int, service: socket.socket, handed_over: socket.socket, row: WorkRow, limits: ChildLimits
) -> None:
    """Serve in this freshly forked process and end it; never returns."""
    status = 1
    try:
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == parent:
            resource.setrlimit(resource.RLIMIT_AS, (limits.memory_bytes, limits.memory_bytes))
            tokenizers, grammars = LoadedTokenizers(limits.models_in_memory), GrammarChecker(limits)
            child = Child(service, tokenizers, grammars, row, max_text_bytes=limits.max_text_bytes)
            child.serve(handed_over)
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
        board = WorkBoard(int(arguments[1]))
        Zygote(control, board, ChildLimits(**orjson.loads(arguments[2]))).serve()


if __name__ == "__main__":
    main(sys.argv[1:])
