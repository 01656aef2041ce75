"""Paths that are taken in turns."""

from bench.turns import medians


async def test_each_path_is_taken_once_a_turn_and_warming_up_does_not_count() -> None:
    taken: list[str] = []
    turns: list[int] = []

    def turn() -> dict[str, object]:
        turns.append(len(turns))

        async def path(name: str) -> None:
            taken.append(name)

        return {name: lambda name=name: path(name) for name in ("direct", "worker")}

    found = await medians(turn, 3, warm_up=2)  # type: ignore[arg-type]
    assert len(turns) == 5
    assert taken == ["direct", "worker"] * 5
    assert found.keys() == {"direct", "worker"}
    assert all(value >= 0 for value in found.values())
