"""In which order a round looks and acts."""

from typing import Any

from conch_operator.kubernetes.api.kinds import MODEL_DEPLOYMENT, Kind, Object
from conch_operator.kubernetes.leader_loop import LeaderRound


class Noted:
    """Stands for everything that a round calls; keeps what was called, in order."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    @property
    def snapshot(self) -> Any:
        return self

    @property
    def workers(self) -> dict[str, Any]:
        return {}

    async def observe(self) -> list[Object]:
        self.calls.append("objects")
        return []

    async def list_watched(self, kind: Kind, namespace: str | None) -> list[Object]:
        assert kind is MODEL_DEPLOYMENT
        self.calls.append("models")
        return []

    async def reconcile(self, *_: object) -> dict[str, Any]:
        self.calls.append("reconcile")
        return {}

    async def nothing(self, *_: object, **__: object) -> None:
        """Do nothing."""

    write_first = write = ensure = ask = nothing


async def test_objects_are_listed_before_their_owners_and_both_before_anything_is_done() -> None:
    noted: Any = Noted()
    await LeaderRound(noted, noted, noted, noted, noted, noted, noted, [None]).run()
    assert noted.calls == ["objects", "models", "reconcile"]
