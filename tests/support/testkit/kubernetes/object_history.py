"""Every version of one object that the API server ever showed: what a test must not miss because it looked too late."""

import json
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testkit.kubernetes.cluster import Namespace
from testkit.processes.tied import tied

Object = dict[str, Any]

_WATCHES = re.compile(r"watch=true\S* .*200 OK")
"""What kubectl says at level 6 when the API server has begun a watch."""
_BEGINS_WITHIN_S = 60


@dataclass(frozen=True, slots=True)
class History:
    """What `kubectl get --watch` has printed so far."""

    file: Path

    def versions(self) -> list[Object]:
        """Return the versions, the oldest first; one that is being written is left out."""
        text, found = self.file.read_text(), []
        decoder, at = json.JSONDecoder(), 0
        while at < len(text):
            try:
                version, end = decoder.raw_decode(text, at)
            except ValueError:
                break
            found.append(version)
            at = end + len(text[end:]) - len(text[end:].lstrip())
        return found

    def statuses(self) -> list[Object]:
        """Return the status of each version that has one."""
        return [version["status"] for version in self.versions() if "status" in version]

    def conditions(self, kind: str) -> list[Object]:
        """Return one condition through all versions."""
        every = (condition for status in self.statuses() for condition in status["conditions"])
        return [condition for condition in every if condition["type"] == kind]


@contextmanager
def history(namespace: Namespace, name: str, file: Path) -> Iterator[History]:
    """Give the history of a ModelDeployment from now on, when the watch has begun; it need not be there yet."""
    cluster = namespace.cluster
    chosen = ("--field-selector", f"metadata.name={name}")
    command = [cluster.tool("kubectl"), f"--kubeconfig={cluster.kubeconfig}", "--namespace", namespace.name]
    command += ["get", "mdep", *chosen, "--watch", "-o", "json", "-v=6"]
    log = file.with_suffix(".log")
    with file.open("wb") as output, log.open("wb") as errors:
        watch = subprocess.Popen(tied(command), stdout=output, stderr=errors)
    try:
        waits_until = time.monotonic() + _BEGINS_WITHIN_S
        while not _WATCHES.search(log.read_text()):
            assert watch.poll() is None, log.read_text()
            assert time.monotonic() < waits_until, log.read_text()
            time.sleep(0.05)
        yield History(file)
    finally:
        watch.terminate()
        watch.wait(timeout=10)
