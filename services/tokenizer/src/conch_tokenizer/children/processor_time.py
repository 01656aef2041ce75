"""How long a process has been computing: a child that got no processor is not held up by its request."""

import os
from pathlib import Path

_USER, _SYSTEM = 11, 12
"""Fields of `/proc/PID/stat` behind the name, in ticks."""
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def processor_time_s(pid: int) -> float:
    """Return how long all threads of a process have been computing, in seconds; 0 where there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0.0
    fields = stat.rpartition(")")[2].split()
    return (int(fields[_USER]) + int(fields[_SYSTEM])) / _TICKS_PER_S
