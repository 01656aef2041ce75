"""Pure: what a pod's status says about the engine in it, with the root cause when it does not run."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from conch_contracts.conditions import Reason
from conch_contracts.names import (
    COMPONENT_LABEL,
    ENGINE_ANNOTATION,
    MODEL_LABEL,
    SERVING_GATE,
    SPEC_HASH_LABEL,
    TRITON_GRPC_PORT,
    EngineAddress,
    ModelId,
)
from conch_contracts.records import Dialect
from conch_operator.agent.tokens import AgentOwner
from conch_operator.download.errors import parse_last_line
from conch_operator.kubernetes.api.kinds import Object
from conch_operator.resources.agent_container import AGENT
from conch_operator.resources.download_container import DOWNLOAD
from conch_operator.resources.engine_deployment import TRITON
from conch_operator.state import ClusterEngine, EngineContract, EngineName, EnginePhase, Fault

_IMAGE_REASONS = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
_CREATION_REASONS = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
_IMAGE = "Check its name, the registry and spec.engine.imagePullSecrets; the node tries again."
_WHAT_DECIDES = "Check resources, nodeSelector, tolerations and affinity in spec.engine, or add a node."
_TOO_LITTLE_MEMORY = "It had too little memory: raise limits.memory in spec.engine.resources."
_OPTION = re.compile(r"^[ \t]+--[a-z0-9-]+(?: <[^>\n]*>)?$", re.MULTILINE)
"""How Triton lists an option in its usage; the description comes in lines of its own."""
_MISSING = (
    (re.compile(r'persistentvolumeclaim "(?P<name>[^"]+)" not found'), Reason.CLAIM_NOT_FOUND, "PersistentVolumeClaim"),
    (re.compile(r'secret "(?P<name>[^"]+)" not found'), Reason.SECRET_NOT_FOUND, "Secret"),
    (re.compile(r"find key (?P<name>\S+ in Secret \S+)"), Reason.SECRET_NOT_FOUND, "key"),
    (re.compile(r'configmap "(?P<name>[^"]+)" not found'), Reason.CONFIG_MAP_NOT_FOUND, "ConfigMap"),
)
_TWICE = re.compile(r"not found(\.? not found)+")
"""As the scheduler says it of a claim."""
_LONGEST = 400


@dataclass(frozen=True, slots=True)
class AgentAddress:
    """Where an agent answers, and whose it is."""

    host: str
    owner: AgentOwner


def read_engine(pod: Object, *, held: bool, event_fault: Fault | None = None) -> ClusterEngine | None:
    """Return the engine of a pod; None for a pod that cannot be read.

    `held`: its end waits for us; `event_fault`: what Events say stops it.
    """
    meta = pod["metadata"]
    contract = _contract(meta.get("annotations", {}).get(ENGINE_ANNOTATION))
    if contract is None:
        return None
    fault = event_fault or pod_fault(pod)
    return ClusterEngine(
        name=pod_name(pod),
        model=ModelId(f"{meta['namespace']}/{meta['labels'][MODEL_LABEL]}"),
        spec_hash=pod_template(pod),
        contract=contract,
        phase=_phase(pod, fault, held=held),
        grpc=engine_address(pod),
        comes_back=not has_ended(pod),
        incarnation=int(container_status(pod, TRITON).get("restartCount", 0)),
        detail=_last_words(container_status(pod, TRITON), pod),
        fault=fault,
        created=int(datetime.fromisoformat(meta["creationTimestamp"]).timestamp()),
    )


@dataclass(frozen=True, slots=True)
class ReadPod:
    """What was read of a pod, which is read again only when it has changed."""

    pod: Object
    held: bool
    event_fault: Fault | None
    engine: ClusterEngine | None

    @classmethod
    def of(cls, pod: Object, event_fault: Fault | None, *, held: bool) -> "ReadPod":
        """Read a pod, as `read_engine` does."""
        return cls(pod, held, event_fault, read_engine(pod, held=held, event_fault=event_fault))

    def is_of(self, pod: Object, event_fault: Fault | None, *, held: bool) -> bool:
        """Return whether that would be read again."""
        return self.pod is pod and (self.held, self.event_fault) == (held, event_fault)


def pod_name(pod: Object) -> EngineName:
    """Return what the operator calls the engine in a pod."""
    return EngineName(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}")


def pod_template(pod: Object) -> str:
    """Return the hash of the template that a pod was made from; empty where it does not say."""
    said: str = pod["metadata"].get("labels", {}).get(SPEC_HASH_LABEL, "")
    return said


def agent_address(pod: Object) -> AgentAddress | None:
    """Return where the agent in a model's pod answers; None while it does not run."""
    host, meta = agent_host(pod), pod["metadata"]
    owner = AgentOwner(meta["namespace"], meta["labels"].get(COMPONENT_LABEL, ""), meta["labels"][MODEL_LABEL])
    return None if host is None else AgentAddress(host, owner)


def agent_host(pod: Object) -> str | None:
    """Return the address of a pod whose agent runs."""
    return _address(pod) if "running" in container_status(pod, AGENT).get("state", {}) else None


def has_ended(pod: Object) -> bool:
    """Return whether no container of the pod is started any more: of one that was evicted, for instance."""
    return pod.get("status", {}).get("phase") in ("Failed", "Succeeded")


def serves(pod: Object) -> bool:
    """Return whether the pod's readiness gate is open."""
    return any(c["type"] == SERVING_GATE and c["status"] == "True" for c in pod["status"].get("conditions", ()))


def pod_fault(pod: Object, what_decides: str = _WHAT_DECIDES) -> Fault | None:
    """Return why the cluster cannot start a pod; None when nothing is known to be wrong.

    `what_decides`: a sentence on what its author may change so that a node takes it.
    """
    if (unschedulable := _unschedulable(pod.get("status", {}).get("conditions", ()), what_decides)) is not None:
        return unschedulable
    for status in statuses_of(pod):
        waiting = status.get("state", {}).get("waiting", {})
        reason, message = waiting.get("reason"), one_line(waiting.get("message", ""))
        if reason in _IMAGE_REASONS:
            cause = (message or reason).rstrip(".")
            return Fault(Reason.IMAGE_PULL_FAILED, f"The image {status['image']} cannot be pulled: {cause}. {_IMAGE}")
        if reason in _CREATION_REASONS:
            cause = message or reason
            if (missing := missing_object(cause)) is not None:
                return missing
            return Fault(Reason.CONTAINER_NOT_CREATED, f"The container {status['name']} cannot be made: {cause}")
    return _failed_init(pod)


def missing_object(cause: str) -> Fault | None:
    """Return what is missing where Kubernetes says that an object was not found; None where it says something else."""
    for pattern, reason, kind in _MISSING:
        if (found := pattern.search(cause)) is not None:
            said = _TWICE.sub("not found", cause).rstrip(".")
            return Fault(reason, f"The {kind} {found['name']} is missing ({said}). Create it.")
    return None


def container_status(pod: Object, name: str) -> Object:
    """Return the status of one container, empty before there is one."""
    return next((status for status in statuses_of(pod) if status["name"] == name), {})


def statuses_of(pod: Object) -> list[Object]:
    """Return the status of every container, those that run first included."""
    status = pod.get("status", {})
    return [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]


def is_initialized(pod: Object) -> bool:
    """Return whether nothing comes before the first start of the engine's container any more."""
    conditions = pod.get("status", {}).get("conditions", ())
    done = any(one["type"] == "Initialized" and one["status"] == "True" for one in conditions)
    return done and bool(_address(pod)) and not container_status(pod, TRITON).get("lastState")


def was_started(state: Object) -> bool:
    """Return whether a container in this state runs or has ended."""
    return "running" in state or "terminated" in state


def one_line(text: str) -> str:
    """Return a text without line breaks, cut to a length that a table can show."""
    flat = " ".join(text.split())
    return flat if len(flat) <= _LONGEST else flat[:_LONGEST] + "…"


def _contract(text: str | None) -> EngineContract | None:
    try:
        found: Mapping[str, Any] = json.loads(text or "")
        contract = EngineContract(str(found["triton_model"]), Dialect(found["dialect"]), int(found["slots"]))
        return replace(contract, max_length=int(found["max_length"])) if "max_length" in found else contract
    except (ValueError, KeyError, TypeError):
        return None


def engine_address(pod: Object) -> EngineAddress:
    """Return where the engine of a pod answers."""
    return EngineAddress(f"{_address(pod)}:{TRITON_GRPC_PORT}")


def _address(pod: Object) -> str:
    address = str(pod.get("status", {}).get("podIP", ""))
    return f"[{address}]" if ":" in address else address


def _phase(pod: Object, fault: Fault | None, *, held: bool) -> EnginePhase:
    state = container_status(pod, TRITON).get("state", {})
    if "deletionTimestamp" in pod["metadata"]:
        return EnginePhase.LEAVING if held and "running" in state else EnginePhase.STOPPING
    if fault is not None:
        return EnginePhase.BLOCKED
    if has_ended(pod) or "terminated" in state:
        return EnginePhase.EXITED
    if state.get("waiting", {}).get("reason") == "CrashLoopBackOff":
        return EnginePhase.EXITED
    if "running" in state:
        return EnginePhase.RUNNING
    return EnginePhase.INITIALIZED if is_initialized(pod) else EnginePhase.STARTING


def _unschedulable(conditions: Iterable[Object], what_decides: str) -> Fault | None:
    for condition in conditions:
        if condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable":
            if (missing := missing_object(one_line(condition.get("message", "")))) is not None:
                return missing
            cause = one_line(condition.get("message", "")).rstrip(".")
            return Fault(Reason.UNSCHEDULABLE, f"No node can run the engine: {cause}. {what_decides}")
    return None


def _failed_init(pod: Object) -> Fault | None:
    for status in pod.get("status", {}).get("initContainerStatuses", ()):
        if status["name"] == AGENT and not _holds_up(status, container_status(pod, TRITON)):
            continue
        ended = status.get("state", {}).get("terminated") or status.get("lastState", {}).get("terminated") or {}
        if ended.get("exitCode", 0) == 0 or status.get("ready"):
            continue
        if status["name"] == DOWNLOAD and (said := parse_last_line(_last_line(ended))) is not None:
            reason, message = said
            return Fault(reason, message)  # while it runs again too: until something comes, that is what is known
        if "running" not in status.get("state", {}):
            return Fault(Reason.DOWNLOAD_FAILED, f"{status['name']}: {_ending(ended)}")
    return None


def _holds_up(agent: Object, triton: Object) -> bool:
    """Return whether an engine does not start for want of its agent, which ends again and again.

    The node starts an agent again at once when it has ended once, and an engine that runs does without it meanwhile.
    """
    has_run = was_started(triton.get("state", {})) or was_started(triton.get("lastState", {}))
    return "waiting" in agent.get("state", {}) and not has_run


def _last_words(status: Object, pod: Object) -> str:
    ended = status.get("state", {}).get("terminated") or status.get("lastState", {}).get("terminated")
    if ended is not None:
        return f"{_ending(ended)} {_TOO_LITTLE_MEMORY}" if ended.get("reason") == "OOMKilled" else _ending(ended)
    return one_line(pod.get("status", {}).get("message", ""))


def _last_line(ended: Object) -> str:
    lines = [line for line in str(ended.get("message", "")).splitlines() if line.strip()]
    return one_line(lines[-1]) if lines else ""


def _printed_its_options(message: str) -> bool:
    """Tell whether the end of a log is Triton's usage: what is wrong stood before it, too far up to be kept."""
    return _OPTION.search(message) is not None


def _ending(ended: Object) -> str:
    how = f"ended with exit code {ended.get('exitCode')}"
    reason = ended.get("reason")
    why = f" ({reason})" if reason not in (None, "Error", "Completed") else ""
    if _printed_its_options(str(ended.get("message", ""))):
        return (
            f"{how}{why}: Triton printed its list of options, as for one that it cannot read. Check spec.engine.args."
        )
    last = _last_line(ended).rstrip(".")
    return f"{how}{why}{': ' + last if last else ''}."
