from pathlib import Path

import pytest

from conch_contracts.names import ModelId
from conch_operator.local.state_folder import StateFolder, StateInUse, write_atomically


def test_a_second_holder_is_told_who_holds_the_folder(tmp_path: Path) -> None:
    state = StateFolder(tmp_path / "state")
    assert not state.is_held()
    with state.held():
        assert state.is_held()
        with pytest.raises(StateInUse, match=r"\d+"), StateFolder(tmp_path / "state").held():
            pass
    assert not state.is_held()


def test_a_model_keeps_the_time_when_it_was_first_seen(tmp_path: Path) -> None:
    a, b = ModelId("local/a"), ModelId("local/b")
    state = StateFolder(tmp_path / "state")
    with state.held():
        assert state.first_seen({a: 5}) == {a: 5}
        assert state.first_seen({a: 9, b: 9}) == {a: 5, b: 9}
        assert state.first_seen({b: 11}) == {b: 9}
        assert state.first_seen({a: 12}) == {a: 12}


def test_a_holder_finds_nothing_of_the_one_before_but_its_cache(tmp_path: Path) -> None:
    state = StateFolder(tmp_path / "state")
    with state.held():
        for file in (state.log("gateway"), state.run / "gateway.json", state.repository("a"), state.cache / "a"):
            file.write_text("")
        write_atomically(state.status, b"{}")
    assert not state.status.exists()
    with state.held():
        left = [path.name for path in state.path.rglob("*") if path.is_file()]
    assert sorted(left) == ["a", "lock"]
    assert (state.cache / "a").exists()
