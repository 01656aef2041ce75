"""The source reader: an agent alone in a pod, for models whose engines Conch does not run.

All models of a namespace with the same source and image share one, so that many external models with one tokenizer cost
one small pod. It belongs to all of them together: Kubernetes deletes it when the last of its owners has gone.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from conch_contracts.names import (
    COMPONENT_LABEL,
    MANAGED_BY_LABEL,
    MODEL_LABEL,
    NAME_LABEL,
    OPERATOR,
    READER_COMPONENT,
    ModelId,
)
from conch_contracts.spec.runtimes import Runtime
from conch_operator.agent.tokens import AgentOwner, AgentTokens
from conch_operator.model_folder.reader import needs_of
from conch_operator.resources.agent_container import agent_container
from conch_operator.resources.download_container import download_container
from conch_operator.resources.metadata import digest, owner_reference, selector, with_hash
from conch_operator.resources.network_policy import make_network_policy
from conch_operator.resources.pod_defaults import POD_SECURITY, container_defaults
from conch_operator.resources.source_volume import copying_container, source_volume
from conch_operator.settings import EngineSettings
from conch_operator.state import DesiredModel

Object = dict[str, Any]


def reader_name(model: DesiredModel) -> str:
    """Return the name of the source reader of a model; models that can share one give the same."""
    spec = model.deployment.spec
    needs = needs_of(spec)
    shared = [spec.source.model_dump(mode="json"), *needs.marks]
    return f"conch-source-{digest(shared)}"


def make_readers(
    models: Iterable[DesiredModel], settings: EngineSettings, tokens: AgentTokens
) -> list[tuple[list[Object], list[DesiredModel]]]:
    """Return the objects of source readers, each with the models that it is for."""
    groups: dict[tuple[str, str], list[DesiredModel]] = {}
    for model in models:
        groups.setdefault((model.deployment.metadata.namespace, reader_name(model)), []).append(model)
    return [(_make(sorted(group, key=lambda m: m.id), settings, tokens), group) for group in groups.values()]


def pods_of(models: Sequence[DesiredModel], pods: Iterable[Object]) -> Mapping[ModelId, list[Object]]:
    """Return each model's pods with an agent, the newest first; of engines or of its source reader."""
    groups: dict[tuple[str, str, str], list[Object]] = {}
    for pod in sorted(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp")), reverse=True):
        meta = pod["metadata"]
        groups.setdefault(
            (meta["namespace"], meta["labels"].get(COMPONENT_LABEL, ""), meta["labels"][MODEL_LABEL]), []
        ).append(pod)
    return {model.id: groups.get(_group(model), []) for model in models}


def _group(model: DesiredModel) -> tuple[str, str, str]:
    namespace = model.deployment.metadata.namespace
    if model.deployment.spec.engine.external is not None:
        return namespace, READER_COMPONENT, reader_name(model)
    chosen = selector(model)
    return namespace, chosen[COMPONENT_LABEL], chosen[MODEL_LABEL]


def _make(models: list[DesiredModel], settings: EngineSettings, tokens: AgentTokens) -> list[Object]:
    first = models[0]
    name = reader_name(first)
    chosen = {MODEL_LABEL: name, COMPONENT_LABEL: READER_COMPONENT}
    labels = {NAME_LABEL: "conch", MANAGED_BY_LABEL: OPERATOR, **chosen}
    metadata = {
        "name": name,
        "namespace": first.deployment.metadata.namespace,
        "labels": labels,
        "ownerReferences": [owner_reference(model) | {"controller": False} for model in models],
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": chosen},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "revisionHistoryLimit": 2,
            "template": {"metadata": {"labels": labels}, "spec": _pod(first, settings, tokens)},
        },
    }
    policies = settings.network_policy
    made = []
    if policies.enabled:
        downloads = first.deployment.spec.source.downloaded is not None
        made.append(make_network_policy(metadata, chosen, policies, engine=False, downloads=downloads))
    return [with_hash(one) for one in (*made, deployment)]


def _pod(model: DesiredModel, settings: EngineSettings, tokens: AgentTokens) -> Object:
    spec = model.deployment.spec
    token_hash = tokens.told(AgentOwner(model.deployment.metadata.namespace, READER_COMPONENT, reader_name(model)))
    source = source_volume(spec)
    defaults = container_defaults(settings)
    image = settings.images.get(Runtime.CPU, settings.agent_image)
    init = [copying_container(spec, image, settings) | defaults] if source.copies_from_image else []
    volumes = list(source.volumes)
    if source.download_mounts:
        init.append(download_container(spec, source, settings) | defaults)
        volumes.append({"name": "tmp", "emptyDir": {}})
    pod: Object = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": POD_SECURITY,
        "terminationGracePeriodSeconds": 5,
        "initContainers": init,
        "containers": [agent_container(model, source, settings, token_hash) | defaults],
        "volumes": volumes,
    }
    if settings.image_pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in settings.image_pull_secrets]
    return pod
