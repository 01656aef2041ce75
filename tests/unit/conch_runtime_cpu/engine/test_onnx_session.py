import os

import pytest

from conch_runtime_cpu.engine.onnx_session import half_of_the_cores


@pytest.mark.parametrize(("cores", "threads"), [(1, 1), (2, 1), (3, 1), (8, 4)])
def test_half_of_the_cores_that_the_process_may_use_are_taken(
    cores: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(cores)))
    assert half_of_the_cores() == threads
