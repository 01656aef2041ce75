"""ModelDeployments that between them use every runtime, and what the operator renders for them."""

from pathlib import Path
from typing import Any

import yaml
from pydantic import SecretStr

from conch_contracts.modeldeployment import parse
from conch_contracts.spec.runtimes import Runtime
from conch_operator.agent.tokens import AgentTokens
from conch_operator.resources.engine_objects import make_engine_objects
from conch_operator.resources.source_reader import make_readers
from conch_operator.settings import DownloadSettings, EngineSettings, NetworkPolicySettings
from conch_operator.state import DesiredModel


def _pods(component: str) -> dict[str, Any]:
    return {"podSelector": {"matchLabels": {"app.kubernetes.io/component": component}}}


TOKENS = AgentTokens(SecretStr("of-these-tests-0123456789"))
SETTINGS = EngineSettings(
    agent_image="conch.test/operator:1",
    images={
        Runtime.CPU: "conch.test/engine-cpu:1",
        Runtime.VLLM: "registry.example.com/tritonserver:vllm",
        Runtime.TENSORRTLLM: "registry.example.com/tritonserver:trtllm",
        Runtime.ONNXRUNTIME: "registry.example.com/tritonserver:plain",
        Runtime.PYTHON: "registry.example.com/tritonserver:plain",
    },
    downloads=DownloadSettings(
        env={"HTTPS_PROXY": "http://proxy.example.com:3128", "HF_ENDPOINT": "https://hub.example.com"},
        ca_bundle="-----BEGIN CERTIFICATE-----\n",
    ),
    network_policy=NetworkPolicySettings.model_validate(
        {"enabled": True, "from": [_pods("llm-worker")], "agentFrom": [_pods("operator")]}
    ),
)
_VOLUME = {"pvc": {"claimName": "models", "path": "some-model"}}


def _gpus(count: int) -> dict[str, Any]:
    return {"limits": {"nvidia.com/gpu": str(count), "memory": "64Gi"}}


SPECS: dict[str, dict[str, Any]] = {
    "cpu": {
        "source": {"path": "tiny-chat"},
        "engine": {
            "cpu": {"quantization": "int8"},
            "args": ["--log-verbose=1"],
            "env": [{"name": "OMP_NUM_THREADS", "value": "2"}],
            "imagePullSecrets": [{"name": "registry"}],
            "nodeSelector": {"disk": "fast"},
            "tolerations": [{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}],
            "runtimeClassName": "gvisor",
            "priorityClassName": "serving",
            "serviceAccountName": "engines",
            "labels": {"team": "search", "app.kubernetes.io/part-of": "chat"},
            "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"},
            "topologySpreadConstraints": [
                {"maxSkew": 2, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
            ],
            "resources": {"limits": {"cpu": 4}},
            "initResources": {"limits": {"memory": "48Mi", "ephemeral-storage": "1Gi"}, "requests": {"cpu": "2"}},
        },
    },
    "cpu-encoder": {"kind": "Rerank", "source": {"path": "tiny-reranker"}, "engine": {"cpu": {"maxBatchSize": 8}}},
    "cpu-embedding": {"kind": "Embedding", "source": {"path": "tiny-clip"}, "engine": {"cpu": {"maxBatchSize": 8}}},
    "cpu-speech": {
        "kind": "Transcription",
        "source": {"path": "tiny-whisper"},
        "engine": {"cpu": {"maxBatchSize": 8}},
    },
    "hub": {
        "source": {
            "huggingFace": {
                "repo": "org/tiny",
                "revision": "v1",
                "tokenSecretRef": {"name": "hub", "key": "token"},
                "cache": {"claimName": "models"},
            }
        },
        "engine": {"cpu": {}},
    },
    "bucket": {
        "source": {
            "s3": {
                "uri": "s3://models/tiny",
                "endpoint": "https://minio.example.com:9000",
                "credentialsSecretRef": {"name": "minio"},
                "cache": {"size": "20Gi"},
            }
        },
        "engine": {"external": {"grpc": "triton.example.com:8001", "dialect": "fastertransformer"}},
    },
    "vllm": {
        "source": _VOLUME,
        "engine": {
            "vllm": {"tensorParallelSize": 2, "maxModelLen": 8192, "gpuMemoryUtilization": "0.85"},
            "resources": _gpus(2),
        },
    },
    "tensorrtllm": {
        "source": _VOLUME,
        "engine": {
            "tensorrtllm": {"tensorParallelSize": 2, "kvCacheFreeGpuMemoryFraction": "0.9", "enableKvCacheReuse": True},
            "resources": _gpus(2),
        },
    },
    "llm-api": {
        "source": _VOLUME,
        "engine": {
            "tensorrtllm": {"backend": "pytorch", "tensorParallelSize": 2, "modelName": "chat.7b", "maxModelLen": 8192},
            "resources": _gpus(2),
        },
    },
    "fastertransformer": {
        "source": _VOLUME,
        "engine": {
            "fastertransformer": {"modelType": "Llama", "checkpoint": "1-gpu"},
            "image": "registry.example.com/fastertransformer:23.10",
            "resources": _gpus(1),
        },
    },
    "onnxruntime": {
        "kind": "Embedding",
        "source": _VOLUME,
        "engine": {"onnxruntime": {"file": "onnx/model.onnx", "threads": 4}},
    },
    "python": {"source": _VOLUME, "engine": {"python": {"instances": 2, "environment": "environment.tar.gz"}}},
    "external": {
        "source": _VOLUME,
        "engine": {"external": {"grpc": "triton.example.com:8001", "dialect": "fastertransformer"}},
    },
}


def rendered(name: str) -> list[dict[str, Any]]:
    """Return the objects that are made for one of them."""
    data = {
        "apiVersion": "conch.dev/v1alpha1",
        "kind": "ModelDeployment",
        "metadata": {"name": name, "namespace": "models"},
        "spec": {"kind": "LLM", **SPECS[name]},
    }
    model = DesiredModel(parse(data), Path("/"), created=1, generation=1, uid="9d6cbd4e-6f4a-4d0a-9d43-0c8e4c6f7a51")
    if model.deployment.spec.engine.external is not None:
        return [made for reader, _ in make_readers([model], SETTINGS, TOKENS) for made in reader]
    return list(make_engine_objects(model, SETTINGS, TOKENS))


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as such, and repeats equal objects in full."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, data: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", data, style="|" if "\n" in data else None)


_Dumper.add_representer(str, _text)


def as_yaml(name: str) -> str:
    """Return them as the text of a golden file."""
    return yaml.dump_all(rendered(name), Dumper=_Dumper, sort_keys=False, width=120)
