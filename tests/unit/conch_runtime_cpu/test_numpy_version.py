from contextlib import nullcontext

import numpy as np
import pytest

from conch_runtime_cpu.errors import UnusableModel
from conch_runtime_cpu.numpy_version import refuse_numpy_2


@pytest.mark.parametrize(("version", "refused"), [("1.26.4", False), ("2.0.0", True), ("10.1", True)])
def test_a_numpy_of_which_the_stub_reads_garbage_is_refused(
    version: str, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(np, "__version__", version)
    refusal = pytest.raises(UnusableModel, match=f"numpy {version} is installed")
    with refusal if refused else nullcontext():
        refuse_numpy_2()
