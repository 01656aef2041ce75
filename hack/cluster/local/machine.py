"""The machine's processes: finds the node's by what they are, starts them, ends them, and waits for conditions.

The process table is read each time: a file with an id in it would outlive a reboot and then name a process of somebody
else.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cluster.errors import ClusterError
from cluster.local.layout import COMPONENTS, RUN, SOCKET, Layout
from cluster.shell import Shell, Word

_POLL_S = 0.1
_NAMED_S = 0.01
_GOGC = "400"
"""How much garbage Go's components may leave, in percent of what they need. They share the machine's cores with what is
tested: with Go's own 100, a fifth of the API server's time went into collecting it."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine as the node's host."""

    layout: Layout
    shell: Shell
    started: list[subprocess.Popen[bytes]] = field(default_factory=list, compare=False)
    """What this object has started, for who waits for their ends; the node's processes outlive the command."""

    def alive(self, name: str) -> int:
        """Return the process id of a component, 0 without one."""
        words = [str(self.layout.kube), name]
        if name == "containerd":
            words = ["containerd", "--config", str(self.layout.containerd_config)]
        if name == "kwok":
            words = [str(self.layout.bin / "kwok")]
        return next((pid for pid, command in _processes() if command[: len(words)] == words), 0)

    def components(self, names: Sequence[str] = COMPONENTS) -> list[int]:
        """Return the process ids of those components that run."""
        return [pid for name in names if (pid := self.alive(name))]

    def in_pods(self) -> list[int]:
        """Return the processes whose root file system our containerd made, and the shims that look after them.

        It takes neither containerd nor a shim to find them: both may have been killed.
        """
        found = []
        for pid, words in _processes():
            keeper = Path(words[0]).name in ("containerd-shim-runc-v2", "runc") and f"{RUN}/" in " ".join(words)
            if keeper or any(f"={self.layout.home}/containerd/" in line for line in _roots(pid)):
                found.append(pid)
        return found

    def start(self, name: str, *command: Word) -> None:
        """Start a component that does not run, with its output in its log."""
        if self.alive(name):
            return
        with (self.layout.log / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [str(word) for word in command],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={**self.shell.environment, "GOGC": _GOGC},
            )
        self.started.append(process)
        while not self.alive(name) and process.poll() is None:
            time.sleep(_NAMED_S)  # the kernel tells its command a moment later: until then it would count as ended

    def kill(self, what: str, find: Callable[[], list[int]]) -> None:
        """Kill processes until none is found."""

        def none_left() -> bool:
            found = find()
            for pid in found:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            return not found

        self.wait(f"the end of {what}", none_left, limit_s=30)

    def wait(self, what: str, ready: Callable[[], bool], *, limit_s: float = 60, needs: tuple[str, ...] = ()) -> None:
        """Wait for a condition; raises ClusterError when its time is over or a component that it needs has ended."""
        deadline = time.monotonic() + limit_s
        while not ready():
            if dead := [name for name in needs if not self.alive(name)]:
                self._show_ends(dead)
                raise ClusterError(f"{', '.join(dead)} ended while waiting for {what}")
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"{what} did not come in {limit_s:.0f} s; see {self.layout.log} and `cluster status`"
                )
            time.sleep(_POLL_S)

    def kubectl(self, *words: Word, text: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run kubectl as the cluster's administrator; a failure is an answer."""
        return self.shell.ask(self.layout.kube, "kubectl", "--kubeconfig", self.layout.admin, *words, text=text)

    def ctr(self, *words: Word) -> subprocess.CompletedProcess[str]:
        """Run containerd's client on the images and containers of Kubernetes; a failure is an answer."""
        return self.shell.ask("ctr", "--address", SOCKET, "-n", "k8s.io", *words)

    def _show_ends(self, names: Sequence[str]) -> None:
        for name in names:
            path = self.layout.log / f"{name}.log"
            sys.stderr.write("\n".join([f"--- end of {path}", *path.read_text().splitlines()[-5:], ""]))


def _processes() -> Iterator[tuple[int, list[str]]]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield int(path.parent.name), path.read_bytes().decode(errors="replace").split("\0")
        except OSError:  # it has ended
            continue


def _roots(pid: int) -> list[str]:
    try:
        lines = Path(f"/proc/{pid}/mountinfo").read_text().splitlines()
    except OSError:  # it has ended
        return []
    return [line for line in lines if line.split()[4] == "/"]
