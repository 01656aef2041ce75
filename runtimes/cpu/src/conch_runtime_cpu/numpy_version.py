"""Which numpy Triton's Python stub can work with."""

import numpy as np

from conch_runtime_cpu.errors import UnusableModel


def refuse_numpy_2() -> None:
    """Raise UnusableModel where the stub would read garbage.

    The stub was built for numpy 1 (nvidia-pytriton requires numpy<2). With numpy 2 it reads every input as copies of
    its first byte or element, and text inputs end the process.
    """
    if int(np.__version__.partition(".")[0]) >= 2:
        raise UnusableModel(f"Triton's Python stub needs numpy below 2; numpy {np.__version__} is installed.")
