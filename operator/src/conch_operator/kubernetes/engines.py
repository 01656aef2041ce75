"""The `Cluster` port on Kubernetes: a Deployment per model, whose pods are the engines."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from conch_contracts.conditions import Reason
from conch_contracts.names import MODEL_LABEL, OPERATOR, SERVING_GATE, ModelId
from conch_contracts.spec.source import CLIMBS
from conch_kit.turns import in_turns
from conch_operator.agent.messages import RESTART_PATH, WITHDRAWN_PATH
from conch_operator.kubernetes.api.client import ApiError, KubernetesApi
from conch_operator.kubernetes.api.kinds import (
    DEPLOYMENT,
    NETWORK_POLICY,
    POD,
    Object,
    kind_of,
    owned_kinds,
)
from conch_operator.kubernetes.api.owned_objects import Key, OwnedObjects, Refused
from conch_operator.kubernetes.planned_objects import ObjectsTogether, PlannedObjects
from conch_operator.kubernetes.pods.agent_client import AT_ONCE, Agents, AgentUnavailable
from conch_operator.kubernetes.pods.creation_failures import CreationFailures, has_all_pods, has_replica_set
from conch_operator.kubernetes.pods.deletion_costs import note_costs
from conch_operator.kubernetes.pods.hold_times import ALONE_S, LONGEST_HOLD_S
from conch_operator.kubernetes.pods.pod_events import PodEvents
from conch_operator.kubernetes.pods.pod_owners import PodOwners
from conch_operator.kubernetes.pods.pod_status import (
    AgentAddress,
    ReadPod,
    agent_address,
    container_status,
    has_ended,
    is_initialized,
    pod_fault,
    pod_name,
    pod_template,
    serves,
)
from conch_operator.reconcile.calls_in_flight import AGAIN_S, AWAITED, Background, CallsInFlight
from conch_operator.reconcile.plan import Acted, Plan
from conch_operator.resources.engine_deployment import TRITON
from conch_operator.resources.engine_image import NotSupported
from conch_operator.resources.source_reader import make_readers, pods_of
from conch_operator.settings import EngineSettings
from conch_operator.state import ClusterEngine, DesiredModel, EngineName, Fault, Scaled
from conch_operator.timestamps import timestamp

log = logging.getLogger(__name__)

_NEXT_STEP = "Correct what it names in the spec, or ask whoever runs the cluster; it is tried again."


@dataclass(frozen=True, slots=True)
class _Made:
    """What became of objects that were made for models."""

    generations: Mapping[str, int]
    """Of each model's spec then, by its uid."""
    fault: Fault | None

    def is_of(self, model: DesiredModel) -> bool:
        """Return whether they were made for this generation."""
        return self.generations.get(model.uid) == model.generation


class KubernetesEngines:
    """Runs engines as pods."""

    def __init__(
        self,
        api: KubernetesApi,
        agents: Agents,
        settings: EngineSettings,
        namespaces: Sequence[str | None],
        clock: Callable[[], float] = time.monotonic,
        background: Background = AWAITED,
        instance: str = OPERATOR,
    ) -> None:
        self._api = api
        self._agents = agents
        self._background = background
        self._settings = settings
        self._namespaces = namespaces
        self._clock = clock
        kinds = owned_kinds(network_policies=settings.network_policy.enabled)
        self._owned = OwnedObjects(api, namespaces, kinds, background=background, instance=instance)
        self._planned = PlannedObjects(settings, agents.tokens)
        self._making: CallsInFlight[Key, _Made] = CallsInFlight(background)
        self._telling: CallsInFlight[tuple[EngineName, str], bool] = CallsInFlight(background, AT_ONCE)
        self._marking: CallsInFlight[EngineName, None] = CallsInFlight(background)
        self._waking: CallsInFlight[ModelId, None] = CallsInFlight(background)
        self._served: Mapping[ModelId, DesiredModel] = {}
        self._made: dict[Key, _Made] = {}
        self._decided: dict[ModelId, Scaled] = {}
        """What was decided last, by a round or since."""
        self._sizing: dict[ModelId, asyncio.Lock] = {}
        self._leaving_since: dict[EngineName, float] = {}
        self._staying: Mapping[tuple[str, str], list[Object]] = {}
        """The pods of each model that nobody has begun to end."""
        self._released: set[EngineName] = set()
        self._owners = PodOwners(api, namespaces, clock)
        self._events = PodEvents(api, clock, background)
        self._creation_failures = CreationFailures(api, clock)
        self._event_faults: Mapping[EngineName, Fault] = {}
        self._rejected: Mapping[ModelId, Fault] = {}
        self._pods: dict[EngineName, Object] = {}
        self._read: dict[EngineName, ReadPod] = {}

    async def observe(self) -> Sequence[Object]:
        """Read what is there and return the models' pods; raises ApiError when it is not known completely."""
        pods: dict[EngineName, Object] = {}
        for namespace in self._namespaces:
            for pod in await self._api.list_watched(POD, namespace, labels=MODEL_LABEL):
                pods[pod_name(pod)] = pod
        await self._owned.observe()
        pods = await self._owners.only_models(pods, self._owned.of_kind(DEPLOYMENT))
        pods = _without_replaced(pods)
        now = self._clock()
        leaving = [name for name, pod in pods.items() if "deletionTimestamp" in pod["metadata"]]
        self._leaving_since = {name: self._leaving_since.get(name, now) for name in leaving}
        self._staying = _by_model(pod for name, pod in pods.items() if name not in self._leaving_since)
        self._released &= pods.keys()
        self._pods = pods
        self._event_faults = await self._events.faults(pods)
        return tuple(pods.values())

    async def engines(self) -> Sequence[ClusterEngine]:
        """Return the engines of all pods, as they were last read; the newest first, since they are of the last edit."""
        newest = sorted(self._pods.items(), key=lambda item: item[1]["metadata"]["creationTimestamp"], reverse=True)
        self._read = {name: self._read_pod(name, pod) for name, pod in newest}
        return tuple(read.engine for read in self._read.values() if read.engine is not None)

    def started(self, pod: Object) -> ClusterEngine | None:
        """Return the engine of a pod that a watch tells of, where it may run and has come on since a round looked."""
        name = pod_name(pod)
        before = self._pods.get(name)
        if _steps(pod) > (_steps(before) if before else 0) and self._owners.is_models(pod):
            self._pods[name] = pod
            return self._read_pod(name, pod).engine
        return None

    def _read_pod(self, name: EngineName, pod: Object) -> ReadPod:
        held, fault, read = self._is_held(name), self._event_faults.get(name), self._read.get(name)
        if read is not None and read.is_of(pod, fault, held=held):
            return read
        return ReadPod.of(pod, fault, held=held)

    async def act(self, steps: Plan) -> Acted:
        """Make the objects of every model, restart what is dead and let go what may end."""
        self._served = {model.id: model for model in steps.serve}
        self._take_over_decisions()
        await self._waking.run({})  # a fault in one that has ended is this round's
        unmade: dict[ModelId, Fault] = {}
        groups = {made.key: (models, made) async for models, made in in_turns(self._to_make(steps, unmade))}
        to_make = [group async for group in in_turns(groups.values()) if not self._is_made(*group)]
        to_do = {group[1].key: partial(self._make, *group) for group in to_make}
        said = await self._making.run(to_do)
        self._made = {key: made for key, made in (self._made | said).items() if key in groups}
        wanted_by = [(key, model) for key, (models, _) in groups.items() for model in models]
        unapplied = {model.id for key, model in wanted_by if key not in self._made or not self._made[key].is_of(model)}
        faults = {model.id: self._made[key].fault for key, model in wanted_by if model.id not in unapplied}
        rejected = {model: fault for model, fault in faults.items() if fault is not None} | unmade
        wanted = {key for _, made in groups.values() for key, _ in made.marks}
        specs = {model.id: made.template for models, made in groups.values() for model in models}
        self._planned.keep_only(self._served.keys())
        await self._owned.prune(wanted, {model.uid for model in steps.models})
        self._creation_failures.keep_only({(namespace, name) for _, namespace, name in groups})
        await self._tell_agents(steps)
        self._log_news(rejected)
        return Acted(rejected, specs, frozenset(unapplied - unmade.keys()))

    @property
    def is_waking(self) -> bool:
        """Whether the cluster is being told to start engines."""
        return bool(self._waking.waiting)

    def wake(self, model: ModelId, scaled: Scaled, done: Callable[[], None]) -> None:
        """Begin to start engines of a model that has none, as the next round would: nobody is to wait for that.

        `done` is called when the cluster has been told; where it refuses, the next round tells it again.
        """
        known = self._served.get(model)
        if known is not None and known.scaled is not None:
            self._decided[model] = scaled
            self._waking.start({model: partial(self._scale, known, done)})

    async def _scale(self, model: DesiredModel, done: Callable[[], None]) -> None:
        try:
            await self._ensure_engines(model)
        except (ApiError, Refused, NotSupported) as error:  # the next round tries it again, and says so
            log.warning("A model was not woken at once.", extra={"model": model.id, "error": str(error)})
        else:
            done()

    def _take_over_decisions(self) -> None:
        """Take over what this round has decided, but where a model was woken since."""
        before = self._decided
        self._decided = {model.id: model.scaled for model in self._served.values() if model.scaled is not None}
        for model in before.keys() & self._decided.keys():
            self._decided[model] = max(self._decided[model], before[model], key=lambda scaled: scaled.order)
        self._sizing = {model: self._sizing.get(model) or asyncio.Lock() for model in self._served}

    async def _ensure_engines(self, model: DesiredModel, planned: Object | None = None) -> None:
        """Make a model's Deployment have the size that was decided last: a round may be older than that."""
        async with self._sizing.setdefault(model.id, asyncio.Lock()):
            latest = replace(model, scaled=self._decided.get(model.id, model.scaled))
            if planned is None or latest.replicas != model.replicas:
                planned = self._planned.of(latest).deployment
            await note_costs(self._api, latest, self._staying.get(_model(planned), ()))
            await self._owned.ensure(planned)

    async def _tell_agents(self, steps: Plan) -> None:
        """Ask agents to have their engine started again or to let it end; those that hang are asked beside rounds.

        A plan also names models in pools, which are no pods of ours.
        """
        restart = {
            (name, RESTART_PATH): partial(self._ask_agent, name, self._agents.request_restart)
            for name in steps.restart
            if name in self._pods
        }
        release = {
            (name, WITHDRAWN_PATH): partial(self._ask_agent, name, self._agents.release)
            for name in steps.stop
            if name in self._pods and name not in self._released
        }
        said = await self._telling.run(restart | release)
        self._released |= {
            name for (name, what), done in said.items() if done and what == WITHDRAWN_PATH
        } & self._pods.keys()

    def _is_made(self, models: Sequence[DesiredModel], made: ObjectsTogether) -> bool:
        """Return whether all of it is there as it should be and was, so that a call about it would do nothing."""
        known, deployment = self._made.get(made.key), made.deployment
        if known is None or known.fault is not None or not all(map(known.is_of, models)):
            return False
        pods = self._templates(deployment)
        return (
            len(pods) <= deployment["spec"]["replicas"]
            and has_all_pods(deployment, pods)
            and all(self._owned.is_right(*mark) for mark in made.marks)
        )

    async def _make(self, models: Sequence[DesiredModel], made: ObjectsTogether) -> "_Made":
        try:
            fault = await self._ensure(models, made)
        except ApiError as error:  # without an answer; other models' objects are made meanwhile
            names = ", ".join(model.id for model in models)
            log.warning(
                "Objects of a model were not made; it is tried again.", extra={"model": names, "error": str(error)}
            )
            self._background.changed_in(AGAIN_S)
            return _Made({}, None)
        return _Made({model.uid: model.generation for model in models}, fault)

    async def _ensure(self, models: Sequence[DesiredModel], made: ObjectsTogether) -> Fault | None:
        """Make each object be there, whatever became of the others; return why one of them or of the pods is not.

        What does not need one another is written at once: each write takes its time, of which many models have many.
        """
        deployment, found = made.deployment, self._owned.has(made.deployment) and made.key not in self._made
        first = [one for one in made.objects if kind_of(one) is NETWORK_POLICY]  # without it all could reach an engine
        then = [deployment, *(one for one in made.objects if one is not deployment and one not in first)]
        refused = await self._ensure_at_once(models, first)
        if all(self._owned.has(one) for one in first):
            refused += await self._ensure_at_once(models, then)
        if refused:
            said = " ".join(refused).rstrip(".")
            message = f"The API server refused an object of the model: {said}. {_NEXT_STEP}"
            return Fault(Reason.REJECTED, message)
        if not has_replica_set(self._owned.annotations(deployment)):
            return None
        return await self._creation_failures.fault(deployment, self._templates(deployment), found=found)

    def _templates(self, deployment: Object) -> list[str]:
        """Return the template hash of each pod of a model that nobody has begun to end."""
        return [pod_template(pod) for pod in self._staying.get(_model(deployment), ())]

    async def _ensure_at_once(self, models: Sequence[DesiredModel], made: Sequence[Object]) -> list[str]:
        """Make objects be there that do not need one another; return what was refused. Raises ApiError."""
        said = await asyncio.gather(*(self._ensure_one(models, one) for one in made), return_exceptions=True)
        for error in said:
            if error is not None and not isinstance(error, Refused):
                raise error
        return [str(error) for error in said if error is not None]

    async def _ensure_one(self, models: Sequence[DesiredModel], one: Object) -> None:
        if kind_of(one) == DEPLOYMENT and models[0].id in self._served:
            await self._ensure_engines(models[0], one)
        else:
            await self._owned.ensure(one)

    def _log_news(self, rejected: Mapping[ModelId, Fault]) -> None:
        """Log each refusal once."""
        for model, fault in rejected.items():
            if self._rejected.get(model) != fault:
                log.warning("A model cannot be run as it is wanted.", extra={"model": model, "error": fault.message})
        self._rejected = dict(rejected)

    async def mark_serving(self, names: frozenset[EngineName]) -> None:
        """Open the readiness gate of pods that requests reach, and close that of others."""
        wrong = {
            name: pod
            for name, pod in self._pods.items()
            if "deletionTimestamp" not in pod["metadata"] and serves(pod) != (name in names)
        }
        await self._marking.run(
            {name: partial(self._mark, name, pod, serving=name in names) for name, pod in wrong.items()}
        )

    async def _mark(self, name: EngineName, pod: Object, *, serving: bool) -> None:
        condition = {"type": SERVING_GATE, "status": str(serving), "lastTransitionTime": timestamp()}
        meta = pod["metadata"]
        change = {"status": {"conditions": [condition]}}
        try:
            await self._api.patch_list(POD, meta["namespace"], meta["name"], change, "status")
        except ApiError as error:
            if not error.answered:
                self._background.changed_in(AGAIN_S)
            if error.status != 404:
                log.warning("A readiness gate was not set.", extra={"engine": name, "error": str(error)})

    def _to_make(
        self, steps: Plan, rejected: dict[ModelId, Fault]
    ) -> Iterator[tuple[Sequence[DesiredModel], ObjectsTogether]]:
        """Yield what is to be there, with the models that need it; say what this installation cannot make."""
        climbing = [model for model in (*steps.serve, *steps.external) if model.deployment.spec.source.climbs]
        rejected |= {model.id: Fault(Reason.NOT_HERE, f"spec.source.{CLIMBS}.") for model in climbing}
        for model in (model for model in steps.serve if model not in climbing):
            try:
                yield [model], self._planned.of(model)
            except NotSupported as error:
                rejected[model.id] = Fault(Reason.NOT_HERE, str(error))
        for reader, models in make_readers(
            [model for model in steps.external if model not in climbing], self._settings, self._agents.tokens
        ):
            yield models, ObjectsTogether.of(reader)
        for model_id, pods in pods_of(steps.external, list(self._pods.values())).items():
            if pods and (fault := self._event_faults.get(pod_name(pods[0])) or pod_fault(pods[0])) is not None:
                rejected[model_id] = fault

    def _is_held(self, name: EngineName) -> bool:
        since = self._leaving_since.get(name)
        if since is None or name in self._released:
            return False
        longest_s = LONGEST_HOLD_S if _model(self._pods[name]) in self._staying else ALONE_S
        return self._clock() - since < longest_s

    async def _ask_agent(self, name: EngineName, what: Callable[[AgentAddress], Awaitable[None]]) -> bool:
        pod = self._pods.get(name)
        agent = agent_address(pod) if pod is not None else None
        if agent is None:
            return False
        try:
            await what(agent)
        except AgentUnavailable as error:
            log.warning("An agent was not told.", extra={"engine": name, "error": str(error)})
            return False
        return True


def _without_replaced(pods: Mapping[EngineName, Object]) -> dict[EngineName, Object]:
    """Leave out pods that have ended for good, evicted ones for instance, once another serves their model.

    Kubernetes keeps them, by the thousand, and they are no engines of the model any more.
    """
    served = {_model(pod) for pod in pods.values() if serves(pod) and not has_ended(pod)}
    return {name: pod for name, pod in pods.items() if not (has_ended(pod) and _model(pod) in served)}


def _steps(pod: Object) -> int:
    """Return how far a pod has come: 2 where its engine runs, 1 where it may, 0 before that and once it is to end."""
    if "deletionTimestamp" in pod["metadata"]:
        return 0
    state = container_status(pod, TRITON).get("state", {})
    return 2 if "running" in state else int("terminated" not in state and is_initialized(pod))


def _by_model(pods: Iterable[Object]) -> Mapping[tuple[str, str], list[Object]]:
    found: dict[tuple[str, str], list[Object]] = {}
    for pod in pods:
        found.setdefault(_model(pod), []).append(pod)
    return found


def _model(item: Object) -> tuple[str, str]:
    return item["metadata"]["namespace"], item["metadata"]["labels"][MODEL_LABEL]
