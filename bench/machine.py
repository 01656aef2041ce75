"""What the measurement ran on."""

import os
import platform
from dataclasses import dataclass
from pathlib import Path

import psutil


@dataclass(frozen=True, slots=True)
class Machine:
    """The facts without which an absolute figure means nothing."""

    cpu: str
    cores: int
    memory_gib: int
    kernel: str
    python: str

    def __str__(self) -> str:
        return f"{self.cores} cores of {self.cpu}, {self.memory_gib} GiB, Linux {self.kernel}, CPython {self.python}"


def this_machine() -> Machine:
    """Describe the machine that runs this process."""
    return Machine(
        cpu=_cpu_model(),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=round(psutil.virtual_memory().total / 2**30),
        kernel=platform.release(),
        python=platform.python_version(),
    )


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return " ".join(value.split())
    return platform.machine()
