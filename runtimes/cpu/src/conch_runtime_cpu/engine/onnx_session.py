"""Opens a graph with onnxruntime in the one way that suits an engine that shares its machine with a server."""

import os
from pathlib import Path

import onnxruntime


def open_session(model: Path, *, threads: int) -> onnxruntime.InferenceSession:
    """Load a model that computes on so many threads, none of which spins while it waits."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def half_of_the_cores() -> int:
    """Return how many threads a model takes whose single call is much work."""
    return max(1, len(os.sched_getaffinity(0)) // 2)
