"""Ends the Triton server when the model's own process has died.

The server would keep the streams of that process open and silent, call the model ready, and never start it again. So a
shell waits beside the process for its end: the pipe between them closes when that is killed, and only then has nobody
written to it. Where the server is process 1 of a container, the kernel lets nobody in there kill it; the operator's
probe finds it then.
"""

import os
import subprocess

_SHELL = "/bin/sh"
_MESSAGE = "Fatal: the model's process has died, most often for lack of memory, so its server is ended."
_SCRIPT = f'read -r done && exit 0; echo "{_MESSAGE}" >&2; kill -KILL "$1"'


class ServerGuard:
    """Watches from when it is made until `end`."""

    def __init__(self) -> None:
        """Have the server, which is this process's parent, killed when this process dies."""
        command = (_SHELL, "-c", _SCRIPT, "conch-server-guard", str(os.getppid()))
        self._shell = subprocess.Popen(command, stdin=subprocess.PIPE)

    def end(self) -> None:
        """Let this process end by itself, as it does when its model is unloaded."""
        self._shell.communicate(b"done\n")
