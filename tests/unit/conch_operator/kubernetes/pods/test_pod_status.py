import json
from typing import Any

import pytest

from conch_contracts.conditions import Reason
from conch_operator.agent.tokens import AgentOwner
from conch_operator.kubernetes.pods.pod_status import AgentAddress, agent_address, read_engine, serves
from conch_operator.state import EnginePhase

CONTRACT = {"triton_model": "model", "dialect": "tokens", "slots": 64}
RUNNING = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def ended(code: int, message: str = "", reason: str = "Error") -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "message": message, "reason": reason}}


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {"waiting": {"reason": reason, "message": message}}


def container(name: str, state: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": name, "image": f"{name}:1", "state": state, "restartCount": 0, **more}


def pod(
    *containers: dict[str, Any], init: tuple[dict[str, Any], ...] = (), conditions: Any = (), **meta: Any
) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "tiny-engine-abc-xyz",
            "namespace": "models",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"conch.dev/model-deployment": "tiny", "conch.dev/spec-hash": "abc"},
            "annotations": {"conch.dev/engine": json.dumps(CONTRACT)},
            **meta,
        },
        "status": {
            "phase": "Running",
            "podIP": "10.0.0.7",
            "containerStatuses": list(containers),
            "initContainerStatuses": list(init),
            "conditions": list(conditions),
        },
    }


INITIALIZED = {"type": "Initialized", "status": "True"}
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes fit."}


@pytest.mark.parametrize(
    ("found", "held", "phase"),
    [
        (pod(), False, EnginePhase.STARTING),
        (pod(container("triton", waiting("PodInitializing"))), False, EnginePhase.STARTING),
        (
            pod(container("triton", waiting("PodInitializing")), conditions=[INITIALIZED]),
            False,
            EnginePhase.INITIALIZED,
        ),
        (
            pod({**container("triton", waiting("")), "lastState": ended(1)}, conditions=[INITIALIZED]),
            False,
            EnginePhase.STARTING,
        ),
        (pod(container("triton", RUNNING)), False, EnginePhase.RUNNING),
        (pod(container("triton", ended(1))), False, EnginePhase.EXITED),
        (pod(container("triton", waiting("CrashLoopBackOff"))), False, EnginePhase.EXITED),
        (pod(container("triton", RUNNING), **DELETED), True, EnginePhase.LEAVING),
        (pod(container("triton", RUNNING), **DELETED), False, EnginePhase.STOPPING),
        (pod(container("triton", ended(0)), **DELETED), True, EnginePhase.STOPPING),
        (pod(conditions=[UNSCHEDULABLE]), False, EnginePhase.BLOCKED),
    ],
)
def test_the_phase_of_an_engine_is_that_of_its_container(found: Any, held: bool, phase: EnginePhase) -> None:
    engine = read_engine(found, held=held)
    assert engine is not None
    assert engine.phase is phase


@pytest.mark.parametrize(
    ("found", "reason", "says"),
    [
        (pod(conditions=[UNSCHEDULABLE]), Reason.UNSCHEDULABLE, "0/3 nodes fit."),
        (
            pod(container("triton", waiting("ImagePullBackOff", "not found"))),
            *(Reason.IMAGE_PULL_FAILED, "The image triton:1 cannot be pulled: not found"),
        ),
        (
            pod(container("triton", waiting("CreateContainerConfigError", 'secret "a" not found'))),
            *(Reason.SECRET_NOT_FOUND, 'secret "a" not found'),
        ),
        (
            pod(init=(container("download", waiting("CrashLoopBackOff"), lastState=ended(1, "one\n403 Forbidden\n")),)),
            *(Reason.DOWNLOAD_FAILED, "download: ended with exit code 1: 403 Forbidden."),
        ),
    ],
)
def test_a_pod_that_cannot_start_says_why(found: Any, reason: Reason, says: str) -> None:
    engine = read_engine(found, held=False)
    assert engine is not None
    assert engine.fault is not None
    assert engine.fault.reason is reason
    assert says in engine.fault.message


def test_a_finished_init_container_is_no_fault() -> None:
    engine = read_engine(pod(container("triton", RUNNING), init=(container("files", ended(0)),)), held=False)
    assert engine is not None
    assert engine.fault is None


@pytest.mark.parametrize(
    ("agent", "triton", "holds_up"),
    [
        pytest.param(ended(137), RUNNING, False, id="it is started again"),
        pytest.param(waiting("CrashLoopBackOff"), RUNNING, False, id="the engine does without it"),
        pytest.param(ended(137), waiting("PodInitializing"), False, id="once in a start"),
        pytest.param(waiting("CrashLoopBackOff"), waiting("PodInitializing"), True, id="again and again in a start"),
    ],
)
def test_an_agent_that_has_ended_is_a_fault_only_of_an_engine_that_never_ran(
    agent: dict[str, Any], triton: dict[str, Any], holds_up: bool
) -> None:
    init = container("agent", agent, lastState=ended(137), ready=False)
    engine = read_engine(pod(container("triton", triton), init=(init,)), held=False)
    assert engine is not None
    assert (engine.fault is not None) == holds_up
    assert (engine.phase is EnginePhase.BLOCKED) == holds_up


def test_an_engine_that_ran_out_of_memory_says_so() -> None:
    found = pod(container("triton", RUNNING, lastState=ended(137, reason="OOMKilled"), restartCount=2))
    engine = read_engine(found, held=False)
    assert engine is not None
    assert engine.incarnation == 2
    assert engine.detail == (
        "ended with exit code 137 (OOMKilled). It had too little memory: raise limits.memory in spec.engine.resources."
    )


def test_the_last_line_of_an_engine_ends_with_one_full_stop() -> None:
    found = pod(container("triton", {"waiting": {"reason": "CrashLoopBackOff"}}, lastState=ended(1, "Default is 0.\n")))
    engine = read_engine(found, held=False)
    assert engine is not None
    assert engine.detail == "ended with exit code 1: Default is 0."


@pytest.mark.parametrize(
    ("end", "says"),
    [
        ("  --log-format <string>\n\tSet the log format.\n\tDefault is 0.\n", "list of options, as for one"),
        ("usage: python --model m\nerror: unknown --option\n", "exit code 1: error: unknown --option."),
    ],
)
def test_an_engine_that_printed_its_options_says_where_to_look(end: str, says: str) -> None:
    found = pod(container("triton", {"waiting": {"reason": "CrashLoopBackOff"}}, lastState=ended(1, end)))
    engine = read_engine(found, held=False)
    assert engine is not None
    assert says in engine.detail


def test_an_engine_is_reached_at_its_pods_address() -> None:
    found = pod(container("triton", RUNNING))
    found["status"]["podIP"] = "fd00::7"
    engine = read_engine(found, held=False)
    assert engine is not None
    assert (engine.grpc, engine.model, engine.name) == ("[fd00::7]:8001", "models/tiny", "models/tiny-engine-abc-xyz")


@pytest.mark.parametrize("annotation", ["", "{", '{"dialect": "unknown", "triton_model": "m", "slots": 1}', "[]"])
def test_a_pod_that_cannot_be_read_is_no_engine(annotation: str) -> None:
    assert read_engine(pod(annotations={"conch.dev/engine": annotation}), held=False) is None


def test_the_agent_is_asked_while_it_runs() -> None:
    assert agent_address(pod(init=(container("agent", waiting("PodInitializing")),))) is None
    address = agent_address(pod(init=(container("agent", RUNNING),)))
    assert address == AgentAddress("10.0.0.7", AgentOwner("models", "", "tiny"))


def test_the_readiness_gate_is_a_condition() -> None:
    assert not serves(pod())
    assert serves(pod(conditions=[{"type": "conch.dev/serving", "status": "True"}]))


def _download(*, now: dict[str, Any], last: dict[str, Any] | None = None) -> dict[str, Any]:
    status = container("download", now, lastState=last or {}, ready=False)
    return pod(container("triton", waiting("PodInitializing")), init=(status,))


@pytest.mark.parametrize(
    ("found", "reason", "says"),
    [
        (_download(now=ended(1, "SourceNotFound: There is none.")), Reason.SOURCE_NOT_FOUND, "There is none."),
        (
            _download(now=waiting("CrashLoopBackOff"), last=ended(1, "SourceUnreachable: The Hub is away.")),
            Reason.SOURCE_UNREACHABLE,
            "The Hub is away.",
        ),
        (
            _download(now=RUNNING, last=ended(1, "InsufficientStorage: It is full.")),
            Reason.INSUFFICIENT_STORAGE,
            "It is full.",
        ),
        (_download(now=ended(137, reason="OOMKilled")), Reason.DOWNLOAD_FAILED, "(OOMKilled)"),
        (_download(now=ended(1, "NameConflict: no reason of a download")), Reason.DOWNLOAD_FAILED, "exit code 1"),
        (
            _download(now=waiting("CreateContainerConfigError", 'secret "hub" not found')),
            Reason.SECRET_NOT_FOUND,
            "The Secret hub is missing",
        ),
        (
            _download(now=waiting("CreateContainerConfigError", "couldn't find key token in Secret models/hub")),
            Reason.SECRET_NOT_FOUND,
            "The key token in Secret models/hub is missing",
        ),
        (
            pod(conditions=[UNSCHEDULABLE]),
            Reason.UNSCHEDULABLE,
            "No node can run the engine: 0/3 nodes fit. Check resources, nodeSelector, tolerations",
        ),
        (
            pod(conditions=[UNSCHEDULABLE | {"message": '0/1 nodes: persistentvolumeclaim "models" not found.'}]),
            Reason.CLAIM_NOT_FOUND,
            "The PersistentVolumeClaim models is missing",
        ),
        (
            pod(conditions=[UNSCHEDULABLE | {"message": '0/1: persistentvolumeclaim "models" not found. not found'}]),
            Reason.CLAIM_NOT_FOUND,
            'The PersistentVolumeClaim models is missing (0/1: persistentvolumeclaim "models" not found). Create it.',
        ),
    ],
)
def test_rows_12_26_28_what_is_missing_or_failed_is_named(found: dict[str, Any], reason: Reason, says: str) -> None:
    engine = read_engine(found, held=False)
    assert engine is not None
    assert engine.fault is not None
    assert (engine.phase, engine.fault.reason) == (EnginePhase.BLOCKED, reason)
    assert says in engine.fault.message


def test_a_download_that_has_ended_well_is_no_fault() -> None:
    status = container("download", ended(0, reason="Completed"), lastState=ended(1, "SourceNotFound: none"), ready=True)
    engine = read_engine(pod(container("triton", RUNNING), init=(status,)), held=False)
    assert engine is not None
    assert engine.fault is None
