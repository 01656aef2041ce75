from pathlib import Path

import pytest

from cluster.local.layout import Layout
from cluster.local.removal import is_half_done, noted


def _end_halfway(layout: Layout) -> None:
    with noted(layout):
        raise SystemExit


def test_a_removal_that_was_ended_is_known_until_one_is_done(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    assert not is_half_done(layout)
    for _ in range(2):
        with pytest.raises(SystemExit):
            _end_halfway(layout)
        assert is_half_done(layout)
    with noted(layout):
        assert is_half_done(layout)
    assert not is_half_done(layout)


def test_a_removal_where_nothing_is_leaves_nothing(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "none")
    with noted(layout):
        assert not is_half_done(layout)
    assert not layout.home.exists()
