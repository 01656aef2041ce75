"""CPU time of processes, by role.

The kernel's clock of a whole process counts nanoseconds and keeps what ended threads have used; the ticks in
`/proc/PID/stat` are ten milliseconds long, too coarse for a window of seconds.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass

_SCHEDULER_CLOCK = 2

Roles = Mapping[int, str]
"""Process id → role. Several processes may share a role; their times are added."""


def process_seconds(pid: int) -> float:
    """Return the CPU time that a live process has used; raises ProcessLookupError when there is none."""
    try:
        return time.clock_gettime((~pid << 3) | _SCHEDULER_CLOCK)
    except OSError as exc:
        raise ProcessLookupError(f"Process {pid} is gone, so its CPU time cannot be read.") from exc


@dataclass(frozen=True, slots=True)
class CpuMeter:
    """The CPU time of a fixed set of processes from the moment it was made."""

    roles: Roles
    started: Mapping[int, float]

    @classmethod
    def start(cls, roles: Roles) -> "CpuMeter":
        """Begin to count."""
        return cls(roles, {pid: process_seconds(pid) for pid in roles})

    def used(self) -> dict[str, float]:
        """Return the seconds that each role has used since the start."""
        used: dict[str, float] = {}
        for pid, role in self.roles.items():
            used[role] = used.get(role, 0.0) + process_seconds(pid) - self.started[pid]
        return used


def micros_each(seconds: Mapping[str, float], units: int) -> dict[str, float]:
    """Spread each role's seconds over so many requests or tokens, in microseconds."""
    return {role: used / units * 1e6 for role, used in seconds.items()}
