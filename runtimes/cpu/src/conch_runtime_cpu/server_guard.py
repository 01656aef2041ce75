"""Ends the Triton server when the model's own process has died.

The server would keep the streams of that process open and silent, call the model ready, and never start it again. So a
shell waits beside the process for its end: the pipe between them closes when that is killed, and only then has nobody
written to it. A server that has ended already is left alone, and so is whatever has its number by then. Where the
server is process 1 of a container, the kernel lets nobody in there kill it; the operator's probe finds it then.
"""

import os
import subprocess
from pathlib import Path

_SHELL = "/bin/sh"
_MESSAGE = "Fatal: the model's process has died, most often for lack of memory, so its server is ended."
_SCRIPT = f"""read -r done && exit 0
begun=$(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d ' ' -f 20)
[ "$begun" = "$2" ] || exit 0
echo "{_MESSAGE}" >&2
kill -KILL "$1"
"""


class ServerGuard:
    """Watches from when it is made until `end`."""

    def __init__(self) -> None:
        """Have the server, which is this process's parent, killed when this process dies."""
        server = os.getppid()
        command = (_SHELL, "-c", _SCRIPT, "conch-server-guard", str(server), _begun(server))
        self._shell = subprocess.Popen(command, stdin=subprocess.PIPE)

    def end(self) -> None:
        """Let this process end by itself, as it does when its model is unloaded."""
        self._shell.communicate(b"done\n")


def _begun(pid: int) -> str:
    """Return when a process began, in the kernel's ticks since boot (proc_pid_stat(5), field 22)."""
    _, _, behind_name = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(") ")
    return behind_name.split()[19]
