from pathlib import Path

from conch_operator.local.orphan_guard import main as guard


def test_the_guard_removes_the_shared_memory_that_it_was_told_of(tmp_path: Path) -> None:
    for name in ("conch_1_a", "conch_1_b", "other"):
        (tmp_path / name).write_bytes(b"")
    guard(["shm conch_1_\n"], shared_memory=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["other"]
