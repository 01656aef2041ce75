import subprocess
from pathlib import Path

from conch_operator.local.orphan_guard import main as guard


def test_the_guard_removes_the_shared_memory_that_it_was_told_of(tmp_path: Path) -> None:
    for name in ("conch_1_a", "conch_1_b", "other"):
        (tmp_path / name).write_bytes(b"")
    guard(["shm conch_1_\n"], shared_memory=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


def test_the_guard_kills_the_groups_that_have_not_ended() -> None:
    left, ended = (subprocess.Popen(["sleep", "600"], start_new_session=True) for _ in range(2))
    try:
        guard([f"+{left.pid}\n", f"+{ended.pid}\n", f"-{ended.pid}\n"])
        assert left.wait(30) == -9
        assert ended.poll() is None
    finally:
        for process in (left, ended):
            process.kill()
            process.wait()


def test_a_group_that_is_gone_keeps_the_guard_from_nothing(tmp_path: Path) -> None:
    gone = subprocess.Popen(["true"], start_new_session=True)
    gone.wait()
    (tmp_path / "conch_1_a").write_bytes(b"")
    guard([f"+{gone.pid}\n", "shm conch_1_\n"], shared_memory=tmp_path)
    assert list(tmp_path.iterdir()) == []
