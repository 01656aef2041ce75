"""Runs other programs, without a proxy: every address here is this machine's own."""

import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from cluster.errors import ClusterError
from images.programs import running

Word = str | Path
_GRACE_S = 60.0
"""How long a program may take to end; one that builds images gives its own programs time."""


@dataclass(frozen=True, slots=True)
class Shell:
    """How programs are started."""

    environment: Mapping[str, str]
    proxied: Mapping[str, str]
    """The environment as it was, for the few that download something."""

    @classmethod
    def without_proxies(cls, environ: Mapping[str, str]) -> "Shell":
        """Take an environment over, but for the proxies."""
        direct = {name: value for name, value in environ.items() if not name.lower().endswith("_proxy")}
        return cls(direct, dict(environ))

    def with_variables(self, **variables: str) -> "Shell":
        """Return a shell that has these variables too."""
        return replace(self, environment={**self.environment, **variables}, proxied={**self.proxied, **variables})

    def ask(self, *command: Word, text: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a program whose failure is an answer."""
        words = [str(word) for word in command]
        return subprocess.run(words, text=True, capture_output=True, env=self.environment, input=text, check=False)

    def run(self, *command: Word, text: str | None = None) -> str:
        """Run a program and return what it prints; raises ClusterError with what it says when it fails."""
        done = self.ask(*command, text=text)
        if done.returncode:
            words = " ".join(map(str, command))
            raise ClusterError(f"{words[:300]}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def show(self, *command: Word) -> None:
        """Run a program that may download and whose output is our progress; raises ClusterError when it fails."""
        words = [str(word) for word in command]
        with running(words, stdout=sys.stderr, env=self.proxied, grace_s=_GRACE_S) as process:
            failed = process.wait()
        if failed:
            raise ClusterError(f"{words[0]} failed; what it said is above.")

    def has(self, program: str) -> bool:
        """Tell whether a program is installed."""
        return shutil.which(program, path=self.environment.get("PATH")) is not None


def say(line: str) -> None:
    """Print progress."""
    sys.stderr.write(f"[cluster] {line}\n")
    sys.stderr.flush()
