import copy
from decimal import Decimal
from typing import Any

import pytest

from conch_contracts.modeldeployment import ModelDeployment, parse
from conch_contracts.problems import InvalidObject
from conch_contracts.records import Dialect, ModelKind
from conch_contracts.spec.runtimes import Runtime

EXTERNAL = {"external": {"grpc": "10.0.0.1:8001", "dialect": "fastertransformer"}}
SCHEDULE = {"cron": "* 8-17 * * *", "min": 1}


def manifest(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "conch.dev/v1alpha1",
        "kind": "ModelDeployment",
        "metadata": {"name": "tiny"},
        "spec": {"kind": "LLM", "source": {"path": "models/tiny"}, "engine": {"cpu": {}}} | spec,
    }


def test_the_smallest_object_gets_every_default() -> None:
    model = parse(manifest())
    assert model.model_id == "local/tiny"
    assert model.served_names == ("tiny",)
    assert model.spec.kind is ModelKind.LLM
    assert model.spec.engine.runtime is Runtime.CPU
    assert (model.spec.replicas, model.spec.routing.timeout, model.spec.routing.queue.max) == (1, 600.0, 200)


@pytest.mark.parametrize(
    ("accepted", "rejected", "says"),
    [
        ({"replicas": 2}, {"replcas": 2}, "spec.replcas: unknown field, did you mean replicas?"),
        ({"replicas": 2}, {"replicas": "2"}, "spec.replicas: input should be a valid integer, found '2'"),
        ({"replicas": 0}, {"replicas": -1}, "spec.replicas: input should be greater than or equal to 0, found -1"),
        ({"default": True}, {"default": "yes"}, "spec.default: input should be a valid boolean, found 'yes'"),
        ({"kind": "Rerank"}, {"kind": "Reranker"}, "spec.kind: input should be 'LLM', 'Embedding'"),
        ({"servedNames": ["a/b:c.d"]}, {"servedNames": ["a b"]}, "spec.servedNames[0]: must be a name of letters"),
        ({"servedNames": ["a", "b"]}, {"servedNames": ["a", "a"]}, "servedNames holds a name twice"),
        ({"engine": {"cpu": {"maxBatchSize": 4}}}, {"engine": {"cpu": {"maxBatchsize": 4}}}, "mean maxBatchSize?"),
        ({"engine": {"cpu": {}}}, {"engine": {}}, "spec.engine: set exactly one of cpu, vllm"),
        ({"engine": EXTERNAL}, {"engine": EXTERNAL | {"cpu": {}}}, "set exactly one of cpu, vllm"),
        ({"engine": EXTERNAL}, {"engine": {"external": {"grpc": "host:8001"}}}, "needs engine.external.dialect"),
        ({"engine": EXTERNAL}, {"engine": {"external": {"http": "host:8000"}}}, "need engine.external.grpc"),
        ({"engine": EXTERNAL}, {"engine": EXTERNAL, "replicas": 2}, "remove replicas"),
        ({"source": {"path": "x"}}, {"source": {}}, "spec.source: set exactly one of"),
        ({"generation": {"temperature": "0.7"}}, {"generation": {"temperature": 0.7}}, 'in quotes: "0.7"'),
        ({"generation": {"temperature": "1"}}, {"generation": {"temperature": [1]}}, 'in quotes, such as "0.7"'),
        (
            {"scaling": {"minReplicas": 0, "maxReplicas": 1, "schedules": [SCHEDULE]}},
            {"scaling": {"minReplicas": 0, "maxReplicas": 1, "schedules": [1]}},
            "spec.scaling.schedules[0]: must be an object with cron, timeZone, min, found 1",
        ),
        (
            {"scaling": {"minReplicas": 0, "maxReplicas": 1, "schedules": [SCHEDULE]}},
            {"scaling": {"minReplicas": 0, "maxReplicas": 1, "schedules": [SCHEDULE | {"timezone": "UTC"}]}},
            "spec.scaling.schedules[0].timezone: unknown field, did you mean timeZone?",
        ),
        ({"generation": {"temperature": "0"}}, {"generation": {"temperature": "NaN"}}, "must be a finite number"),
        ({"generation": {"badWords": [[1]]}}, {"generation": {"badWords": [[-1]]}}, "must not be negative"),
        ({"routing": {"timeout": "1m30s"}}, {"routing": {"timeout": "90"}}, "must be a duration"),
        ({"routing": {"timeout": "500ms"}}, {"routing": {"timeout": "0s"}}, "must be a duration of more than zero"),
        (
            {"tokenizer": {"chatTemplate": {"inline": "x"}}},
            {"tokenizer": {"chatTemplate": {"inline": "x", "file": "y"}}},
            "spec.tokenizer.chatTemplate: set exactly one of inline, file",
        ),
        (
            {"tokenizer": {"contentFormat": "openai"}},
            {"tokenizer": {"contentFormat": "parts"}},
            "spec.tokenizer.contentFormat",
        ),
    ],
)
def test_each_rule_has_an_accepted_and_a_rejected_twin(
    accepted: dict[str, Any], rejected: dict[str, Any], says: str
) -> None:
    parse(manifest(**accepted))
    with pytest.raises(InvalidObject) as caught:
        parse(manifest(**rejected))
    assert says in str(caught.value)


@pytest.mark.parametrize("name", ["Upper", "under_score", "-a", "a-", "a.b", "", "a" * 41])
def test_a_name_that_is_no_short_dns_label_is_refused(name: str) -> None:
    data = manifest() | {"metadata": {"name": name}}
    with pytest.raises(InvalidObject, match=r"metadata\.name"):
        parse(data)


def test_another_kind_of_object_is_named() -> None:
    with pytest.raises(InvalidObject, match=r"found apiVersion v1, kind Pod"):
        parse({"apiVersion": "v1", "kind": "Pod"})


def test_every_problem_is_reported_with_its_path() -> None:
    with pytest.raises(InvalidObject) as caught:
        parse(manifest(replicas=-1, engine={"cpu": {"maxBatchSize": 0}}))
    assert [problem.field for problem in caught.value.problems] == ["spec.replicas", "spec.engine.cpu.maxBatchSize"]


def test_metadata_that_kubernetes_adds_is_accepted() -> None:
    data = manifest() | {"metadata": {"name": "tiny", "uid": "1", "labels": {"a": "b"}}, "status": {"replicas": 1}}
    assert parse(data).metadata.name == "tiny"


def test_what_was_written_survives_a_round_trip() -> None:
    spec = {
        "generation": {"temperature": "0.70", "badWords": [[7768, 3908], [1, 2]]},
        "routing": {"timeout": "90m", "queue": {"wait": "500ms"}},
        "engine": EXTERNAL,
    }
    model = parse(manifest(**copy.deepcopy(spec)))
    dumped = model.model_dump(mode="json", by_alias=True, exclude_unset=True)
    assert parse(dumped) == model
    assert dumped["spec"]["generation"] == spec["generation"]
    assert model.spec.generation.temperature == Decimal("0.70")
    assert model.spec.engine.external is not None
    assert model.spec.engine.external.dialect is Dialect.FASTERTRANSFORMER


def test_every_field_is_described() -> None:
    schema = ModelDeployment.model_json_schema()
    missing = [
        f"{name}.{field}"
        for name, part in {"ModelDeployment": schema, **schema["$defs"]}.items()
        for field, rules in part.get("properties", {}).items()
        if not rules.get("description") and "$ref" not in rules
    ]
    assert missing == []
