from typing import Any

from conch_contracts.conditions import ConditionType
from conch_contracts.names import ModelId
from conch_contracts.records import ModelKind, Pool
from conch_operator.kubernetes.desired_models import SpecReader, read_wanted
from conch_operator.kubernetes.status_writer import event_body, status_body
from conch_operator.reconcile.readiness import Published
from conch_operator.reconcile.status import describe
from conch_operator.state import Desired, Observed
from testkit.builders.model_deployments import FACTS, desired_model, engine


def item(name: str = "tiny", **changes: Any) -> dict[str, Any]:
    meta = {
        "name": name,
        "namespace": "local",
        "uid": f"uid-{name}",
        "generation": 3,
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    spec = {"kind": "LLM", "source": {"path": "tiny"}, "engine": {"cpu": {}}}
    return {"metadata": meta | changes.pop("metadata", {}), "spec": spec, **changes}


def test_objects_become_models() -> None:
    wanted = read_wanted([item()])
    (model,) = wanted.desired.models
    assert (model.id, model.generation, model.uid, model.created) == ("local/tiny", 3, "uid-tiny", 1767225600)
    assert wanted.statuses() == {}


def test_what_is_being_deleted_wants_nothing() -> None:
    wanted = read_wanted([item(metadata={"deletionTimestamp": "2026-01-02T00:00:00Z"})])
    assert (wanted.desired.models, wanted.objects) == ((), {})


def test_what_cannot_be_read_is_told_and_not_served() -> None:
    wanted = read_wanted([item(spec={"kind": "LLM"})])
    assert wanted.desired.models == ()
    why = wanted.desired.unreadable[ModelId("local/tiny")]
    assert ("spec.source" in why.message, why.generation) == (True, 3)
    assert wanted.kinds == {ModelKind.LLM}, "its workers stay"


def test_fields_of_a_newer_version_are_ignored_and_named() -> None:
    newer = {
        "kind": "LLM",
        "source": {"path": "tiny", "checksum": "x"},
        "engine": {"cpu": {"threads": 4}},
        "canary": {"weight": 1},
    }
    wanted = read_wanted([item(spec=newer)])
    (model,) = wanted.desired.models
    assert (model.deployment.spec.source.path, wanted.desired.unreadable) == ("tiny", {})
    assert set(wanted.unknown[model.id]) == {"spec.source.checksum", "spec.engine.cpu.threads", "spec.canary"}


def test_an_unknown_source_cannot_be_ignored() -> None:
    wanted = read_wanted([item(spec={"kind": "LLM", "source": {"git": {}}, "engine": {"cpu": {}}})])
    assert "set exactly one of" in wanted.desired.unreadable[ModelId("local/tiny")].message


def test_a_status_is_read_as_it_was_written() -> None:
    model = desired_model()
    observed = Observed(sources={model.id: FACTS}, engines=(engine(model),), workers={Pool.LLM: 1, Pool.TOKENIZER: 1})
    statuses = describe(Desired((model,)), observed, Published(frozenset({model.id})), {}, "2026-01-01T00:00:00Z")
    body = status_body(statuses[model.id], item())
    assert body["selector"] == "conch.dev/model-deployment=tiny,app.kubernetes.io/component=engine"
    assert body["observedGeneration"] == 3
    again = read_wanted([item(status=body)]).statuses()[model.id]
    assert again.ready
    assert status_body(again, item()) == body


def test_an_event_has_one_name_for_one_transition() -> None:
    model = desired_model()
    statuses = describe(Desired((model,)), Observed(), Published(), {}, "2026-01-01T00:00:00Z")
    ready = statuses[model.id].condition(ConditionType.READY)
    assert ready is not None
    first, second = event_body(item(), ready, "a"), event_body(item(), ready, "b")
    assert first["metadata"]["name"] == second["metadata"]["name"]
    assert (first["type"], first["reason"]) == ("Normal", "Waiting")
    assert first["regarding"]["uid"] == "uid-tiny"


def test_a_generation_of_a_spec_is_read_once_whatever_else_changes() -> None:
    reader = SpecReader()
    (first,) = reader.read([item()]).desired.models
    (second,) = reader.read([item(metadata={"resourceVersion": "8"}, status={"replicas": 1})]).desired.models
    assert second is first
    edited = item(metadata={"generation": 4}, spec=item()["spec"] | {"servedNames": ["other"]})
    (third,) = reader.read([edited]).desired.models
    assert third.deployment.served_names == ("other",)


def test_an_object_that_was_made_again_is_read_again_and_so_is_one_that_was_away() -> None:
    reader = SpecReader()
    (first,) = reader.read([item()]).desired.models
    (again,) = reader.read([item(metadata={"uid": "another"})]).desired.models
    assert (again is first, again.uid) == (False, "another")
    (back,) = reader.read([item()]).desired.models
    assert back is not first
