import asyncio
import copy
from collections.abc import Callable
from typing import Any

import pytest

from conch_contracts.names import API_VERSION, KIND
from conch_operator.kubernetes.api.client import ApiError, KubernetesApi
from conch_operator.kubernetes.api.kinds import DEPLOYMENT, DISRUPTION_BUDGET, MODEL_DEPLOYMENT, Kind, Object
from conch_operator.kubernetes.api.owned_objects import SELECTOR, OwnedObjects, Refused, key_of
from conch_operator.reconcile.calls_in_flight import Background
from conch_operator.resources.metadata import with_hash


class Server(KubernetesApi):
    """An API server that keeps objects, and counts what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.objects: dict[tuple[str, str], Object] = {}
        self.writes: list[str] = []
        self.error: ApiError | None = None
        self.unmergeable: set[str] = set()
        self.paused = False
        self.events: list[Object] = []
        self.owners: dict[str, Object] = {"owner": {"metadata": {"name": "owner", "uid": "owner"}}}
        self.asked: list[str] = []

    async def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        assert kind is MODEL_DEPLOYMENT
        self.asked.append(name)
        return self.owners.get(name)

    async def list_all(
        self, kind: Kind, namespace: str | None, *, labels: str | None = None, metadata_only: bool = False
    ) -> list[Object]:
        return [copy.deepcopy(item) for (plural, _), item in self.objects.items() if plural == kind.plural]

    async def apply(self, kind: Kind, made: Object) -> Object:
        self.writes.append(f"apply {made['metadata']['name']}")
        if self.error is not None:
            raise self.error
        if made["metadata"]["name"] in self.unmergeable:
            raise ApiError(422, "Duplicate value")
        key = (kind.plural, made["metadata"]["name"])
        before = self.objects.get(key)
        generation = before["metadata"]["generation"] if before else 0
        same = before is not None and before["made"] == made
        meta = {**made["metadata"], "uid": "u", "resourceVersion": "1", "generation": generation + (not same)}
        self.objects[key] = {"metadata": meta, "made": made, "spec": {"paused": True} if self.paused else {}}
        return copy.deepcopy(self.objects[key])

    async def patch(self, kind: Kind, namespace: str, name: str, change: Object, subresource: str = "") -> Object:
        self.writes.append(f"patch {name} {change}")
        item = self.objects[(kind.plural, name)]
        item["metadata"]["generation"] += 1
        self.paused = False
        return copy.deepcopy(item)

    async def create(self, kind: Kind, made: Object) -> Object:
        self.events.append(made)
        return made

    async def reset(self, kind: Kind, made: Object) -> Object:
        name = made["metadata"]["name"]
        self.writes.append(f"reset {name}")
        if self.error is not None:
            raise self.error
        item = self.objects[(kind.plural, name)]
        if name in self.unmergeable:
            self.unmergeable.remove(name)
            item["metadata"]["generation"] += 1
        return copy.deepcopy(item)

    async def delete(self, kind: Kind, found: Object) -> None:
        self.writes.append(f"delete {found['metadata']['name']}")
        del self.objects[(kind.plural, found["metadata"]["name"])]


class World:
    def __init__(self) -> None:
        self.server = Server()
        self.owned = OwnedObjects(self.server, [None], (DISRUPTION_BUDGET, DEPLOYMENT), SELECTOR)

    async def round(self, *made: Object, owners: frozenset[str] = frozenset({"owner"})) -> list[str]:
        self.server.writes.clear()
        await self.owned.observe()
        for one in made:
            await self.owned.ensure(one)
        await self.owned.prune({key_of(one) for one in made}, owners)
        return list(self.server.writes)


@pytest.fixture
def world() -> World:
    return World()


def budget(name: str = "a", content: str = "x") -> Object:
    owner = {"apiVersion": API_VERSION, "kind": KIND, "name": "owner", "uid": "owner"}
    meta: dict[str, Any] = {"name": name, "namespace": "n", "labels": {}, "ownerReferences": [owner]}
    return with_hash(
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": {"key": content}}
    )


async def test_what_is_missing_is_made_once(world: World) -> None:
    assert await world.round(budget()) == ["apply a"]
    for _ in range(100):
        assert await world.round(budget()) == []


async def test_a_change_of_what_is_wanted_is_one_write(world: World) -> None:
    await world.round(budget())
    assert await world.round(budget(content="y")) == ["apply a"]
    assert await world.round(budget(content="y")) == []


async def test_what_somebody_else_changed_is_put_right(world: World) -> None:
    await world.round(budget())
    world.server.objects[("poddisruptionbudgets", "a")]["metadata"]["generation"] = 9
    assert await world.round(budget()) == ["apply a"]


async def test_a_deployment_that_somebody_has_paused_goes_on_and_an_event_says_so(world: World) -> None:
    await world.round(deployment())
    world.server.paused = True
    world.server.objects[("deployments", "d")]["metadata"]["generation"] = 9
    assert await world.round(deployment()) == ["apply d", "patch d {'spec': {'paused': None}}"]
    assert await world.round(deployment()) == []
    (event,) = world.server.events
    assert (event["type"], event["reason"], event["regarding"]["name"]) == ("Warning", "Resumed", "d")
    assert "was paused" in event["note"]
    assert event["note"].endswith("To have no pods, set spec.replicas of its ModelDeployment to 0.")


def deployment() -> Object:
    meta: dict[str, Any] = {"name": "d", "namespace": "n", "labels": {}}
    return with_hash({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": {}})


def _removed(world: World) -> None:
    world.server.objects.clear()


def _let_go(world: World) -> None:
    meta = world.server.objects[("poddisruptionbudgets", "a")]["metadata"]
    meta |= {"ownerReferences": [], "generation": 9}


OWNERS: dict[str, tuple[Object | None, list[str]]] = {
    "there": ({"metadata": {"name": "owner", "uid": "owner"}}, ["apply a"]),
    "gone": (None, []),
    "going": ({"metadata": {"name": "owner", "uid": "owner", "deletionTimestamp": "2026-01-01T00:00:00Z"}}, []),
    "another of its name": ({"metadata": {"name": "owner", "uid": "another"}}, []),
}


@pytest.mark.parametrize("change", [_removed, _let_go])
@pytest.mark.parametrize(("owner", "writes"), OWNERS.values(), ids=OWNERS.keys())
async def test_what_was_ours_is_written_again_only_while_its_owner_is_there(
    world: World, change: Callable[[World], None], owner: Object | None, writes: list[str]
) -> None:
    await world.round(budget())
    assert world.server.asked == [], "what is new has an owner"
    change(world)
    world.server.owners = {} if owner is None else {"owner": owner}
    assert await world.round(budget()) == writes


async def test_what_nobody_owns_is_written_again(world: World) -> None:
    made = budget()
    made["metadata"]["ownerReferences"] = []
    await world.round(made)
    _removed(world)
    assert await world.round(made) == ["apply a"]


async def test_a_new_operator_writes_once_what_is_right_already(world: World) -> None:
    await world.round(budget())
    generation = world.server.objects[("poddisruptionbudgets", "a")]["metadata"]["generation"]
    world.owned = OwnedObjects(world.server, [None], (DISRUPTION_BUDGET, DEPLOYMENT), SELECTOR)
    assert await world.round(budget()) == ["apply a"]
    assert world.server.objects[("poddisruptionbudgets", "a")]["metadata"]["generation"] == generation
    assert await world.round(budget()) == []


async def test_what_an_owner_should_not_have_goes(world: World) -> None:
    await world.round(budget("a"), budget("b"))
    assert await world.round(budget("a")) == ["delete b"]


@pytest.mark.parametrize("whoever_owns_it", [False, True])
async def test_what_nobody_wanted_any_more_is_made_again_as_something_new(world: World, whoever_owns_it: bool) -> None:
    await world.round(budget())
    if whoever_owns_it:
        await world.owned.prune_all(())
    else:
        await world.round()
    assert world.server.objects == {}
    assert await world.round(budget()) == ["apply a"]
    assert world.server.asked == [], "what is new has an owner"


async def test_what_belongs_to_nobody_that_we_know_stays(world: World) -> None:
    await world.round(budget())
    assert await world.round(owners=frozenset({"another"})) == []


@pytest.mark.parametrize("status", [403, 409, 422, 500, 503])
async def test_what_the_server_says_of_one_object_is_a_refusal_of_that_object(world: World, status: int) -> None:
    world.server.error = ApiError(status, "spec is wrong")
    with pytest.raises(Refused, match="spec is wrong"):
        await world.owned.ensure(budget())
    world.server.error = None
    assert await world.round(budget()) == ["apply a"]


async def test_what_cannot_be_merged_with_a_change_by_hand_is_reset_and_written(world: World) -> None:
    await world.round(budget())
    world.server.unmergeable = {"a"}
    world.server.objects[("poddisruptionbudgets", "a")]["metadata"]["generation"] = 9
    assert await world.round(budget()) == ["apply a", "reset a"]
    assert await world.round(budget()) == ["apply a"]
    assert await world.round(budget()) == []


async def test_what_is_invalid_in_itself_is_reset_in_vain_and_refused(world: World) -> None:
    await world.round(budget())
    world.server.error = ApiError(422, "spec is wrong")
    with pytest.raises(Refused, match="PodDisruptionBudget a: spec is wrong"):
        await world.round(budget(content="y"))
    assert world.server.writes == ["apply a", "reset a"]


async def test_an_object_that_a_reset_does_not_change_is_not_reset_again(world: World) -> None:
    await world.round(budget())

    class Picky(Server):
        async def apply(self, kind: Kind, made: Object) -> Object:
            self.writes.append("apply")
            raise ApiError(422, "a policy says no")

    picky = Picky()
    picky.objects = world.server.objects
    owned = OwnedObjects(picky, [None], (DISRUPTION_BUDGET, DEPLOYMENT), SELECTOR)
    for _ in range(3):
        await owned.observe()
        with pytest.raises(Refused, match="a policy says no"):
            await owned.ensure(budget(content="y"))
    assert picky.writes == ["apply", "reset a", "apply", "apply"]


@pytest.mark.parametrize("status", [0, 401, 429])
async def test_no_answer_is_no_refusal(world: World, status: int) -> None:
    world.server.error = ApiError(status, "no answer")
    with pytest.raises(ApiError, match="no answer"):
        await world.round(budget())


async def test_an_object_that_is_being_deleted_is_written_again_and_not_deleted_twice(world: World) -> None:
    await world.round(budget())
    (item,) = world.server.objects.values()
    item["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert await world.round(budget()) == ["apply a"]
    (item,) = world.server.objects.values()
    item["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert await world.round() == []


@pytest.mark.parametrize("status", [0, 401, 429])
async def test_no_answer_to_a_reset_is_no_refusal(world: World, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.round(budget())
    world.server.unmergeable = {"a"}
    world.server.objects[("poddisruptionbudgets", "a")]["metadata"]["generation"] = 9
    await world.owned.observe()

    async def away(kind: Kind, made: Object) -> Object:
        raise ApiError(status, "away")

    monkeypatch.setattr(world.server, "reset", away)
    with pytest.raises(ApiError, match="away"):
        await world.owned.ensure(budget())


@pytest.mark.parametrize(("status", "later"), [(0, 1), (401, 1), (429, 1), (403, 0), (500, 0)])
async def test_what_may_not_be_deleted_holds_up_no_other(
    world: World, status: int, later: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[float] = []
    monkeypatch.setattr(Background, "changed_in", lambda _, seconds: begun.append(seconds))
    await world.round(budget("a"), budget("b"))
    delete = world.server.delete

    async def refuse(kind: Kind, found: Object) -> None:
        if found["metadata"]["name"] == "a":
            raise ApiError(status, "no")
        await delete(kind, found)

    monkeypatch.setattr(world.server, "delete", refuse)
    await world.round()
    assert ("poddisruptionbudgets", "b") not in world.server.objects
    assert ("poddisruptionbudgets", "a") in world.server.objects
    assert len(begun) == later, "rounds to come, where the server has not answered"


async def test_when_one_list_fails_the_others_end_with_it() -> None:
    ended = []

    class Fails(Server):
        async def list_all(self, kind: Kind, *_: object, **__: object) -> list[Object]:
            if kind is DEPLOYMENT:
                raise ApiError(500, "no")
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(kind.name)
            return []

    async with asyncio.timeout(30):
        with pytest.raises(ApiError):
            await OwnedObjects(Fails(), [None], (DISRUPTION_BUDGET, DEPLOYMENT), SELECTOR).observe()
    assert ended == ["PodDisruptionBudget"]
