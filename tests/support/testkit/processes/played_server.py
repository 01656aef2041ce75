"""A tritonserver as an agent sees it in the pod's table of processes, of which a test has a folder of its own."""

from pathlib import Path

PID = 7


def play_server(processes: Path, pid: int = PID, started: int = 100, root: Path | None = None) -> Path:
    """Put it into the table; return where its container's files are: in a new folder, or in `root`."""
    folder = processes / str(pid)
    folder.mkdir()
    if root is None:
        (folder / "root").mkdir()
    else:
        (folder / "root").symlink_to(root)
    (folder / "comm").write_text("tritonserver\n")
    (folder / "stat").write_text(f"{pid} (tritonserver) S 1 " + "0 " * 17 + f"{started} 0")
    return folder / "root"
