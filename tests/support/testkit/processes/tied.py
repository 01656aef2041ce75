"""Commands whose process does not outlive the test run, even when that is killed."""

import os
import sys
from collections.abc import Sequence

from conch_operator.local import die_with_parent


def tied(command: Sequence[str]) -> list[str]:
    """Return the command that becomes this one, and that the kernel kills when this process ends, however it ends.

    The thread that starts it counts as its parent: it must live as long as the process is to live.
    """
    return [sys.executable, "-I", "-S", die_with_parent.__file__, str(os.getpid()), *command]
