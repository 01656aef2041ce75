"""Makes the objects of every EnginePool be there, and nothing else of theirs."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from conch_contracts.conditions import Reason
from conch_contracts.names import OPERATOR, PoolId
from conch_operator.agent.tokens import AgentTokens
from conch_operator.kubernetes.api.client import ApiError, KubernetesApi
from conch_operator.kubernetes.api.kinds import DEPLOYMENT, NETWORK_POLICY, Object
from conch_operator.kubernetes.api.owned_objects import Key, OwnedObjects, Refused, key_of
from conch_operator.kubernetes.pods.creation_failures import CreationFailures
from conch_operator.kubernetes.pods.pod_owners import OF_POOLS
from conch_operator.reconcile.calls_in_flight import AGAIN_S, AWAITED, Background, CallsInFlight
from conch_operator.resources.engine_image import NotSupported
from conch_operator.resources.metadata import template_hash
from conch_operator.resources.pool_objects import PoolObject, make_pool_objects
from conch_operator.settings import EngineSettings
from conch_operator.state import Fault

log = logging.getLogger(__name__)

_NEXT_STEP = "Correct what it names, or ask whoever runs the cluster; it is tried again."
_WITHOUT_PODS = "To have no pod, delete its EnginePool."


class KeptPoolObjects:
    """Knows the objects of all pools."""

    def __init__(
        self,
        api: KubernetesApi,
        tokens: AgentTokens,
        settings: EngineSettings,
        namespaces: Sequence[str | None],
        clock: Callable[[], float] = time.monotonic,
        background: Background = AWAITED,
        instance: str = OPERATOR,
    ) -> None:
        self._tokens = tokens
        self._settings = settings
        kinds = (DEPLOYMENT, NETWORK_POLICY) if settings.network_policy.enabled else (DEPLOYMENT,)
        self._owned = OwnedObjects(api, namespaces, kinds, OF_POOLS.selector, background, instance, _WITHOUT_PODS)
        self._background = background
        self._making: CallsInFlight[PoolId, Fault | None] = CallsInFlight(background)
        self._creation_failures = CreationFailures(api, clock)
        self._faults: dict[PoolId, Fault] = {}
        self._templates: Mapping[PoolId, str] = {}

    async def observe(self) -> Sequence[Object]:
        """Read what is there and return the pools' Deployments; raises ApiError."""
        await self._owned.observe()
        return self._owned.of_kind(DEPLOYMENT)

    async def make(
        self, pools: Mapping[PoolId, PoolObject], staying: Callable[[PoolId], Sequence[str]]
    ) -> Mapping[PoolId, Fault]:
        """Make them be as they should be; return why those of some pools are not.

        `staying`: the template hash of each pod of one that nobody has begun to end.
        """
        groups: dict[PoolId, Sequence[Object]] = {}
        unmade: dict[PoolId, Fault] = {}
        for pool_id, pool in pools.items():
            try:
                groups[pool_id] = make_pool_objects(pool, self._settings, self._tokens)
            except NotSupported as error:
                unmade[pool_id] = Fault(Reason.NOT_HERE, str(error))
        self._templates = {pool: template_hash(made[-1]) for pool, made in groups.items()}
        said = await self._making.run(
            {pool: partial(self._ensure, pool, made, staying(pool)) for pool, made in groups.items()}
        )
        self._faults = {pool: fault for pool, fault in self._faults.items() if pool in groups and pool not in said}
        self._faults |= {pool: fault for pool, fault in said.items() if fault is not None and pool in groups}
        wanted: set[Key] = {key_of(one) for made in groups.values() for one in made}
        await self._owned.prune(wanted, {pool.uid for pool in pools.values()})
        self._creation_failures.keep_only({(namespace, name) for _, namespace, name in wanted})
        return self._faults | unmade

    def template(self, pool: PoolId) -> str | None:
        """Return the hash of the template that the pod of a pool is to have; None where none can be made."""
        return self._templates.get(pool)

    async def _ensure(self, pool: PoolId, made: Sequence[Object], staying: Sequence[str]) -> Fault | None:
        for one in made:  # without its NetworkPolicy, which comes first, a server would be open to everybody
            try:
                await self._owned.ensure(one)
            except Refused as error:
                said = str(error).rstrip(".")
                return Fault(Reason.REJECTED, f"The API server refused an object of the pool: {said}. {_NEXT_STEP}")
            except ApiError as error:  # without an answer
                log.warning("A pool was not made; it is tried again.", extra={"pool": pool, "error": str(error)})
                self._background.changed_in(AGAIN_S)
                return self._faults.get(pool)
        return await self._creation_failures.fault(made[-1], staying, found=True)
