"""Makes objects be as they were planned, with a write only where something differs.

A difference is a missing object, another hash label, or another generation than after our last write: somebody else has
changed it. The first round after a start writes everything once,
which changes nothing on objects that are right. What the server refuses for one object holds up no other.

What we have written and what is gone or has lost its owner since may have been deleted with that owner, or let go by it
(`--cascade=orphan`), and the list of the owners may be older than that. So the owner is asked for before such an object
is written again: written as that owner's, it would be deleted after all.

Other people's fields are left alone, unless ours are invalid beside them (both bounds of a budget, for instance): then
everything that they changed is thrown away, once for each change, and the next round writes the object as usual.
A Deployment that somebody has paused is resumed, and an Event says so: no change would ever come to its pods.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from functools import partial

from conch_contracts.names import MANAGED_BY_LABEL, MODEL_LABEL, OPERATOR, SPEC_HASH_LABEL
from conch_kit.side_by_side import together
from conch_operator.kubernetes.api import object_events
from conch_operator.kubernetes.api.client import ApiError, KubernetesApi
from conch_operator.kubernetes.api.kinds import Kind, Object, kind_of
from conch_operator.reconcile.calls_in_flight import AGAIN_S, AWAITED, Background, CallsInFlight

log = logging.getLogger(__name__)

_INVALID = 422
_RESUMED = (
    "The Deployment was paused, and Conch has resumed it: a paused one takes up no change of what it is made from. {}"
)
_WITHOUT_ENGINES = "To have no pods, set spec.replicas of its ModelDeployment to 0."


def selector_of(label: str) -> str:
    """Return the label selector of all that we made and gave this label."""
    return f"{MANAGED_BY_LABEL}={OPERATOR},{label}"


SELECTOR = selector_of(MODEL_LABEL)

Key = tuple[str, str, str]
"""Plural, namespace and name."""


class Refused(Exception):
    """The API server will not have an object, or fails at it; the message is its own."""


class OwnedObjects:
    """Knows the objects that are there, and how they were when they were last written."""

    def __init__(
        self,
        api: KubernetesApi,
        namespaces: Sequence[str | None],
        kinds: Sequence[Kind],
        labels: str = SELECTOR,
        background: Background = AWAITED,
        instance: str = OPERATOR,
        without_pods: str = _WITHOUT_ENGINES,
    ) -> None:
        """Know those of these kinds and labels.

        `instance`: who tells of them in Events; `without_pods`: how to have no pods of theirs, a sentence.
        """
        self._api = api
        self._instance = instance
        self._resumed = _RESUMED.format(without_pods)
        self._namespaces = namespaces
        self._kinds = kinds
        self._labels = labels
        self._found: dict[Key, Object] = {}
        self._written: dict[Key, int] = {}
        """The generations that they had when they were last written."""
        self._reset: dict[Key, int] = {}
        """Likewise when they were last put back."""
        self._background = background
        self._deleting: CallsInFlight[Key, None] = CallsInFlight(background)

    async def observe(self) -> None:
        """Read what is there: a complete list."""
        found: dict[Key, Object] = {}
        for listed in await together(*(self._list(kind) for kind in self._kinds)):
            found |= listed
        self._found = found
        self._reset = {key: one for key, one in self._reset.items() if key in found}

    async def ensure(self, made: Object) -> None:
        """Make one object be as it was planned, unless its owner has gone.

        Raises Refused, and ApiError when no answer comes.
        """
        kind = kind_of(made)
        key = _key(kind, made)
        wanted = made["metadata"]["labels"][SPEC_HASH_LABEL]
        if self.is_right(key, wanted):
            return
        try:
            if self._is_let_go(key, made) and not await self._has_owner(made):
                return
            live = await self._api.apply(kind, made)
            if live.get("spec", {}).get("paused"):
                live = await self._resume(kind, live)
        except ApiError as error:
            if not error.answered:
                raise
            if error.status == _INVALID and await self._put_back(kind, made):
                return
            raise Refused(f"{kind.name} {made['metadata']['name']}: {error}") from error
        self._found[key] = live
        self._written[key] = _generation(live)

    async def prune(self, wanted: Collection[Key], owners: Collection[str]) -> None:
        """Delete what these owners have and should not have; what nobody owns is Kubernetes' or its user's."""
        self._forget(wanted)
        await self._delete({k: one for k, one in self._found.items() if k not in wanted and _owned(one, owners)})

    async def prune_all(self, wanted: Collection[Key]) -> None:
        """Delete everything that should not be there, whoever owns it."""
        self._forget(wanted)
        await self._delete({key: item for key, item in self._found.items() if key not in wanted})

    def of_kind(self, kind: Kind) -> list[Object]:
        """Return what is there of one kind; of most objects the metadata only."""
        return [item for key, item in self._found.items() if key[0] == kind.plural]

    def is_right(self, key: Key, spec_hash: str) -> bool:
        """Return whether an object is there as it was planned with this hash, since we have written it."""
        item = self._found.get(key)
        if item is None or "deletionTimestamp" in item["metadata"]:
            return False
        labels: Mapping[str, str] = item["metadata"].get("labels", {})
        return labels.get(SPEC_HASH_LABEL) == spec_hash and self._written.get(key) == _generation(item)

    def has(self, made: Object) -> bool:
        """Return whether an object is there, in whatever shape."""
        return key_of(made) in self._found

    def annotations(self, made: Object) -> Mapping[str, str]:
        """Return the annotations that an object has where it is there."""
        found = self._found.get(key_of(made))
        return {} if found is None else found["metadata"].get("annotations", {})

    def reference_to(self, made: Object) -> Object | None:
        """Return what names an object in Events; None while it is not there."""
        found = self._found.get(key_of(made))
        return None if found is None else object_events.reference_to(kind_of(made), found)

    def has_any(self, label: str, value: str) -> bool:
        """Return whether an object with this label is there."""
        return any(item["metadata"].get("labels", {}).get(label) == value for item in self._found.values())

    def _forget(self, wanted: Collection[Key]) -> None:
        self._written = {key: one for key, one in self._written.items() if key in wanted}

    def _is_let_go(self, key: Key, made: Object) -> bool:
        """Return whether an object of ours is gone, or has not all its owners any more."""
        item = self._found.get(key)
        if item is None:
            return key in self._written
        return not _owners(made) <= _owners(item)

    async def _has_owner(self, made: Object) -> bool:
        """Return whether one of the owners that an object is to have is there to stay, if it is to have any."""
        owners = made["metadata"].get("ownerReferences", ())
        for owner in owners:
            found = await self._api.get(kind_of(owner), made["metadata"]["namespace"], owner["name"])
            meta = {} if found is None else found["metadata"]
            if meta.get("uid") == owner["uid"] and "deletionTimestamp" not in meta:
                return True
        return not owners

    async def _resume(self, kind: Kind, live: Object) -> Object:
        """Let a Deployment go on that somebody has paused; raises ApiError."""
        meta = live["metadata"]
        resumed = await self._api.patch(kind, meta["namespace"], meta["name"], {"spec": {"paused": None}})
        log.warning("A paused Deployment was resumed.", extra={"object": _key(kind, live)})
        about = object_events.reference_to(kind, resumed)
        mark = f"resumed {_generation(live)}"
        said = object_events.event_body(about, mark, self._instance, normal=False, reason="Resumed", note=self._resumed)
        await object_events.tell(self._api, said)
        return resumed

    async def _put_back(self, kind: Kind, made: Object) -> bool:
        """Put an object back that cannot be merged; return whether that changed something, so that the next may."""
        key = _key(kind, made)
        item = self._found.get(key)
        if item is None or "deletionTimestamp" in item["metadata"] or self._reset.get(key) == _generation(item):
            return False
        try:
            live = await self._api.reset(kind, made)
        except ApiError as error:
            if not error.answered:
                raise
            return False
        self._reset[key] = _generation(live)
        changed = _generation(live) != _generation(item)
        if changed:
            log.warning(
                "An object was reset, since ours is invalid beside what somebody changed.", extra={"object": key}
            )
        return changed

    async def _list(self, kind: Kind) -> dict[Key, Object]:
        found: dict[Key, Object] = {}
        for namespace in self._namespaces:
            for item in await self._api.list_watched(kind, namespace, labels=self._labels, metadata_only=True):
                found[_key(kind, item)] = item
        return found

    async def _delete(self, items: Mapping[Key, Object]) -> None:
        staying = {key: item for key, item in items.items() if "deletionTimestamp" not in item["metadata"]}
        await self._deleting.run({key: partial(self._delete_one, key, item) for key, item in staying.items()})

    async def _delete_one(self, key: Key, item: Object) -> None:
        try:
            await self._api.delete(next(kind for kind in self._kinds if kind.plural == key[0]), item)
        except ApiError as error:
            if not error.answered:
                self._background.changed_in(AGAIN_S)
            log.warning("An object was not deleted; it is tried again.", extra={"object": key, "error": str(error)})


def key_of(made: Object) -> Key:
    """Return what names an object among all."""
    return _key(kind_of(made), made)


def _key(kind: Kind, item: Object) -> Key:
    return kind.plural, item["metadata"]["namespace"], item["metadata"]["name"]


def _generation(item: Object) -> int:
    generation: int = item["metadata"]["generation"]
    return generation


def _owned(item: Object, owners: Collection[str]) -> bool:
    return not _owners(item).isdisjoint(owners)


def _owners(item: Object) -> frozenset[str]:
    return frozenset(owner["uid"] for owner in item["metadata"].get("ownerReferences", ()))
