"""The chart renders, refuses what it does not know, and says of every value what it means."""

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from conch_contracts.records import ModelKind
from conch_contracts.spec.runtimes import Runtime
from conch_embed_worker.settings import EmbedWorkerSettings
from conch_gateway.settings import GatewaySettings
from conch_kit.settings import ServerSettings, ServiceSettings
from conch_llm_worker.settings import LlmWorkerSettings
from conch_media.settings import MediaSettings
from conch_operator.settings import OperatorSettings, ReleaseFile
from conch_speech_worker.settings import SpeechWorkerSettings
from conch_tokenizer.settings import TokenizerSettings
from generate.chart_files import values_schema
from generate.chart_renders import CASES, case_names, golden, render
from generate.helm import CHART, Helm
from testkit.kubernetes import chart
from testkit.kubernetes.chart import IMAGES, Rendered, default_values, environment

Schema = dict[str, Any]
KEYWORDS = frozenset(
    [
        "$defs",
        "$ref",
        "$schema",
        "additionalProperties",
        "const",
        "description",
        "enum",
        "exclusiveMinimum",
        "if",
        "items",
        "maxLength",
        "maximum",
        "minItems",
        "patternProperties",
        "minLength",
        "minimum",
        "pattern",
        "properties",
        "required",
        "then",
        "type",
        "uniqueItems",
    ]
)
AS_IN_A_POD = ("resources", "initResources")
DEFINITIONS: Schema = values_schema()["$defs"]  # type: ignore[assignment]


@pytest.mark.parametrize("case", case_names())
def test_a_golden_render_is_up_to_date(helm: Helm, case: str) -> None:
    committed = golden(case).read_text(encoding="utf-8") if golden(case).exists() else ""
    assert committed == render(helm, case), "Run `make generate` and commit what it writes."


@pytest.mark.parametrize("case", case_names())
def test_helm_finds_nothing_to_object_to(helm: Helm, case: str) -> None:
    assert "0 chart(s) failed" in helm.lint("--values", CASES / f"{case}.yaml")


@pytest.mark.parametrize(
    ("option", "why"),
    [
        ("gateway.replica=3", "replica"),
        ("ingres.host=a.example.com", "ingres"),
        ("ingress.hosts=a.example.com", "hosts"),
        ("gateway.settings.maxBodyByte=1", "maxBodyByte"),
        ("workers.llm.resources.limit.memory=1Gi", "limit"),
        ("workers.vision.minReplicas=1", "vision"),
        ("gateway.replicas=0", "gateway/replicas"),
        ("media.settings.allowedAddresses=10.0.0.0/8", "allowedAddresses"),
        ("gateway.replicas=two", "gateway/replicas"),
        ("gateway.nodeSelector.my key=a", "nodeSelector"),
        ("operator.nodeSelector.disk=fast one", "nodeSelector"),
        ("engines.images.vllm=https://registry.example.com/vllm", "vllm"),
        ("engines.images.python=registry.example.com/my image:1", "python"),
        ("engines.images.cpu=Engine:1", "cpu"),
        ("redis.image=redis:", "image"),
        ("images.pullPolicy=Sometimes", "pullPolicy"),
        ("images.digests.gateway=sha256:1", "gateway"),
        ("images.digests.redis=sha256:1", "redis"),
        ("redis.persistence.enabled=perhaps", "enabled"),
        ("logLevel=LOUD", "logLevel"),
        ("ingress.host=https://a.example.com/v1", "host"),
        ("redis.external.url=rediss://user:secret@redis.example.com", "url"),
        ("operator.watchNamespaces={Models}", "watchNamespaces"),
        ("imagePolicy.enabled=true", "allowedPrefixes"),
        ("httpRoute.enabled=true", "parentRefs"),
        ("networkPolicy.externalEngines={10.28.31.48}", "externalEngines"),
        ("networkPolicy.externalEngines={10.28.0.0/33}", "externalEngines"),
        ("addresses.allowed={https://minio.example.com}", "allowed"),
        ("addresses.allowed={10.0.0.0/33}", "allowed"),
        ("addresses.refused={fd00::/129}", "refused"),
        ("addresses.allowed={300.1.1.1/16}", "allowed"),
        ("addresses.allowed={10.28.256.1}", "allowed"),
        ("addresses.allowed={10.028.0.0/16}", "allowed"),
        ("addresses.refused={:::/8}", "refused"),
        ("addresses.refused={fd00::1::2}", "refused"),
        ("networkPolicy.externalEngines={10.28.999.0/24}", "externalEngines"),
        ("networkPolicy.clientsFrom[0].ipBlock.cidr=10.0.0.0/99", "clientsFrom"),
        ("networkPolicy.metricsFrom[0].ipBlock.except={10.0.0.0/8}", "metricsFrom"),
        ("images.prefix=https://registry.example.com/conch", "prefix"),
        ("images.prefix=registry.example.com/conch/", "prefix"),
        ("ingress.host=127.0.0.1", "host"),
        ("ingress.host=a..example.com", "host"),
        ("addresses.clusterDomain=cluster..local", "clusterDomain"),
        ("redis.persistence.storageClass=fast..local", "storageClass"),
        ("gateway.tolerations[0].operator=Exist", "tolerations"),
        ("workers.llm.tolerations[0].effect=noSchedule", "tolerations"),
        ("workers.embed.tolerations[0].key=my key", "tolerations"),
        ("workers.speech.tolerations[0].taint=gpu", "tolerations"),
        ("workers.llm.podAnnotations.my key=a", "podAnnotations"),
    ],
)
def test_a_typing_mistake_stops_the_installation(helm: Helm, option: str, why: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        helm.template("--set", option)
    assert why in failed.value.stderr
    assert "don't meet the specifications of the schema" in failed.value.stderr


def test_bounds_that_exclude_each_other_stop_the_installation(helm: Helm) -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        helm.template(*IMAGES, "--set", "workers.embed.minReplicas=5")
    assert "embed-worker: maxReplicas is 4, less than minReplicas, 5" in failed.value.stderr


@pytest.mark.parametrize(
    ("limit", "most", "fits"),
    [
        ("64Mi", "1gb", False),
        ("1Gi", "1gb", False),
        ("1100M", "1gb", True),
        ("1.5Gi", "1gb", True),
        ("1073741824", "1024mb", False),
        ("2e9", "1gb", True),
    ],
)
def test_redis_may_not_be_promised_more_than_its_pod_has(helm: Helm, limit: str, most: str, fits: bool) -> None:
    memory = ("--set-string", f"redis.resources.limits.memory={limit}", "--set", f"redis.maxMemory={most}")
    if fits:
        assert helm.template(*IMAGES, *memory)
        return
    with pytest.raises(subprocess.CalledProcessError) as failed:
        helm.template(*IMAGES, *memory)
    assert f"is {limit}, which is not more than redis.maxMemory, {most}" in failed.value.stderr


def test_an_installation_without_images_is_told_how_to_make_them(helm: Helm) -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        helm.template()
    assert "images.prefix is empty" in failed.value.stderr
    assert "make push REGISTRY=" in failed.value.stderr


@pytest.mark.parametrize(
    ("persistence", "claims"),
    [
        ("enabled=auto", 0),  # a render without a cluster has no StorageClass
        ("enabled=true", 1),
        ("enabled=false", 0),
        ("storageClass=fast", 1),
    ],
)
def test_redis_keeps_its_data_where_a_claim_is_answered(helm: Helm, persistence: str, claims: int) -> None:
    rendered = chart.render(helm, "--set", f"redis.persistence.{persistence}")
    (data,) = [found for found in rendered.pods()["conch-redis"]["spec"]["volumes"] if found["name"] == "data"]
    assert len(rendered.of("PersistentVolumeClaim")) == claims
    assert data == (
        {"name": "data", "persistentVolumeClaim": {"claimName": "conch-redis"}}
        if claims
        else {"name": "data", "emptyDir": {"sizeLimit": "4Gi"}}
    )


def test_every_value_has_a_sentence() -> None:
    assert [path for path, part in _parts(values_schema()) if not str(part.get("description", "")).endswith(".")] == []


def test_the_schema_says_nothing_that_helm_ignores() -> None:
    assert sorted(_keywords(values_schema()) - KEYWORDS) == []


def test_no_object_of_the_schema_takes_unknown_fields() -> None:
    written = [("", values_schema()), *_parts(values_schema()), *DEFINITIONS.items()]
    closed = [(path, part.get("additionalProperties")) for path, part in written if "properties" in part]
    assert [path for path, more in closed if more is not False] == []


def test_the_schema_and_the_values_name_the_same_things() -> None:
    described = {path for path, _ in _parts(values_schema()) if ".settings." not in path} - {"global"}
    assert described == set(_paths(default_values()))


@pytest.mark.parametrize("path", ["ingress.host", "redis.persistence.size"])
def test_the_page_of_values_names_them(path: str) -> None:
    assert f"| `{path}` |" in (CHART.parents[1] / "docs" / "values.md").read_text(encoding="utf-8")


def test_the_set_with_everything_sets_every_value() -> None:
    everything = yaml.safe_load((CASES / "everything.yaml").read_text(encoding="utf-8"))
    described = {path for path, _ in _parts(values_schema())} - {"global"}
    assert described - set(_paths(everything)) == set()


@pytest.mark.parametrize(
    ("component", "settings"),
    [
        ("gateway", GatewaySettings),
        ("tokenizer", TokenizerSettings),
        ("workers.llm", LlmWorkerSettings),
        ("workers.embed", EmbedWorkerSettings),
        ("workers.speech", SpeechWorkerSettings),
        ("media", MediaSettings),
        ("operator", OperatorSettings),
    ],
)
def test_every_setting_is_one_of_the_process(component: str, settings: type[ServerSettings]) -> None:
    prefix = f"{component}.settings."
    names = [path.removeprefix(prefix) for path, _ in _parts(values_schema()) if path.startswith(prefix)]
    assert names
    assert {_snake(name) for name in names} - set(settings.model_fields) == set()


@pytest.mark.parametrize(
    ("container", "settings"),
    [
        ("conch-gateway/gateway", GatewaySettings),
        ("conch-tokenizer/tokenizer", TokenizerSettings),
        ("conch-llm-worker/llm-worker", LlmWorkerSettings),
        ("conch-embed-worker/embed-worker", EmbedWorkerSettings),
        ("conch-speech-worker/speech-worker", SpeechWorkerSettings),
        ("conch-media/media", MediaSettings),
        ("conch-operator/operator", OperatorSettings),
    ],
)
@pytest.mark.parametrize("case", case_names())
def test_a_process_knows_every_variable_that_it_is_given(
    helm: Helm, case: str, container: str, settings: type[ServerSettings]
) -> None:
    options = ("--values", CASES / f"{case}.yaml", "--set", "fullnameOverride=conch", "--set", "media.enabled=true")
    given = environment(chart.render(helm, *options).containers()[container])
    ours = {name.removeprefix("CONCH_").lower(): value for name, value in given.items() if name.startswith("CONCH_")}
    read = settings.model_validate({name: _as_given(name, value) for name, value in ours.items()})
    assert set(ours) <= set(settings.model_fields)
    assert isinstance(read, ServiceSettings) is (settings is not MediaSettings)
    assert not isinstance(read, ServiceSettings) or read.redis_url.startswith("redis")


@pytest.mark.parametrize("case", case_names())
def test_the_operator_understands_its_file(helm: Helm, case: str) -> None:
    rendered = chart.render(helm, "--values", CASES / f"{case}.yaml")
    told = ReleaseFile.model_validate(rendered.operator_settings())
    assert told.owner is not None
    assert rendered.one("Deployment", told.owner.name)
    assert rendered.one("Lease", told.lease)
    assert {kind for pool in told.worker_pools.values() for kind in pool.kinds} == set(ModelKind)
    assert set(Runtime) - set(told.engines.images) == {Runtime.EXTERNAL, Runtime.FASTERTRANSFORMER}


def test_large_numbers_reach_a_process_as_whole_numbers(helm: Helm) -> None:
    rendered = chart.render(helm, "--set", "gateway.settings.maxBodyBytes=20971520")
    assert environment(rendered.containers()["conch-gateway/gateway"])["CONCH_MAX_BODY_BYTES"] == "20971520"


@pytest.mark.parametrize(
    ("release", "stem"),
    [("conch", "conch"), ("prod", "prod-conch"), ("my-conch", "my-conch"), ("a" * 53, "a" * 34 + "-conch")],
)
def test_names_come_from_the_release(helm: Helm, release: str, stem: str) -> None:
    made = yaml.safe_load(helm.template(*IMAGES, "-s", "templates/gateway/deployment.yaml", release=release))
    assert made["metadata"]["name"] == f"{stem}-gateway"


def test_every_name_fits_a_label(helm: Helm) -> None:
    rendered = [
        found for found in yaml.safe_load_all(helm.template(*IMAGES, release="r" * 53, namespace="n" * 63)) if found
    ]
    namespaced = [found["metadata"]["name"] for found in rendered if "namespace" in found["metadata"]]
    assert [name for name in namespaced if len(name) > 63] == []


def test_the_definition_of_models_stays_when_the_release_goes(plain: Rendered) -> None:
    definition = plain.one("CustomResourceDefinition", "modeldeployments.conch.dev")
    assert definition["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}


def test_a_file_holds_objects_of_one_kind(helm: Helm) -> None:
    kinds: dict[str, set[str]] = {}
    for case in case_names():
        for document in helm.template("--values", CASES / f"{case}.yaml").split("---\n"):
            if found := yaml.safe_load(document):
                source = document.splitlines()[0].removeprefix("# Source: ")
                kinds.setdefault(source, set()).add(found["kind"])
    assert {source: sorted(names) for source, names in kinds.items() if len(names) > 1} == {}


def test_every_template_renders_in_some_golden_file() -> None:
    shown = "".join(golden(case).read_text(encoding="utf-8") for case in case_names())
    files = {str(path.relative_to(CHART)) for path in (CHART / "templates").rglob("*.yaml")}
    before_some_upgrades = {"templates/operator/configmap-departure.yaml", "templates/operator/departure.yaml"}
    definitions = {f"templates/crds/{name}.yaml" for name in ("modeldeployments", "enginepools")}  # test_crd.py
    elsewhere = definitions | before_some_upgrades  # test_chart_departure.py
    assert {name for name in files if f"conch/{name}\n" not in shown} == elsewhere


def _parts(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Give every described value, by its path; what is written as in a pod is one value."""
    for name, given in schema.get("properties", {}).items():
        part = _resolved(given)
        at = f"{path}{name}"
        yield at, part
        if name not in AS_IN_A_POD:
            yield from _parts(part, f"{at}.")


def _keywords(schema: object) -> set[str]:
    if not isinstance(schema, dict):
        return set()
    named = [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values()]
    nested = [*named, schema.get("items"), schema.get("additionalProperties")]
    return set(schema).union(*map(_keywords, nested))


def _resolved(part: Schema) -> Schema:
    if "$ref" not in part:
        return part
    beside = {key: value for key, value in part.items() if key != "$ref"}
    return _resolved(DEFINITIONS[part["$ref"].removeprefix("#/$defs/")]) | beside


def _paths(values: Schema, path: str = "") -> Iterator[str]:
    described = dict(_parts(values_schema()))
    for name, value in values.items():
        at = f"{path}{name}"
        yield at
        if isinstance(value, dict) and "properties" in described.get(at, {}) and name not in AS_IN_A_POD:
            yield from _paths(value, f"{at}.")


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def _as_given(name: str, value: object) -> object:
    """Return a variable as the process will read it; a reference becomes some text."""
    if name in ("cors_origins", "template_variables", "refused_addresses"):
        return str(value).split(",")
    return value if isinstance(value, str) else "text"
