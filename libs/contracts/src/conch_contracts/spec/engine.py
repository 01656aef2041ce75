"""How a model's engines are run: one runtime block, named after the runtime, and what is beside it."""

from decimal import Decimal
from typing import Annotated, ClassVar

from pydantic import Field

from conch_contracts.spec.container import (
    Arguments,
    Environment,
    ImagePullSecret,
    ImageReference,
    ResourcesSpec,
)
from conch_contracts.spec.fields import ObjectName, SpecPart
from conch_contracts.spec.nodes import AffinitySpec, NodeLabels, SpreadConstraints, Toleration
from conch_contracts.spec.pod_metadata import PodAnnotations, PodLabelValues
from conch_contracts.spec.quantities import quantity_value
from conch_contracts.spec.rule_types import Rule, Transition, fields_set_in, one_of, rule
from conch_contracts.spec.runtimes import (
    CpuEngineSpec,
    ExternalEngineSpec,
    FasterTransformerEngineSpec,
    GpuEngineSpec,
    OnnxRuntimeEngineSpec,
    PythonEngineSpec,
    Runtime,
    TensorRtLlmBackend,
    TensorRtLlmEngineSpec,
    VllmEngineSpec,
)

_OTHER_DEVICES = (
    "rdma/",
    "mellanox.com/",
    "intel.com/",
    "openshift.io/",
    "vpc.amazonaws.com/",
    "networking.gke.io/",
    "kubernetes.io/",
    "devices.kubevirt.io/",
    "smarter-devices/",
)
"""Resources with a domain whose names begin so are network cards and other devices; all others are accelerators."""

REQUESTED_BY_DEFAULT = {"cpu": "100m", "memory": "256Mi"}
"""What an engine's container asks for of a resource of which its author says nothing."""

_GPU_RUNTIMES = "(has(self.vllm) || has(self.tensorrtllm) || has(self.fastertransformer))"
_IS_GPU = "name.contains('/') && !name.matches('^(" + "|".join(_OTHER_DEVICES) + ")')"
_GPU_LIMITS = f"has(self.resources) && has(self.resources.limits) && self.resources.limits.exists(name, {_IS_GPU} && "
_GPU_AMOUNT = "quantity(string(self.resources.limits[name]))"
_GPUS_NEEDED = (
    "(has(self.vllm) ? self.vllm.tensorParallelSize * self.vllm.pipelineParallelSize : has(self.tensorrtllm) ? "
    "self.tensorrtllm.tensorParallelSize * self.tensorrtllm.pipelineParallelSize / self.tensorrtllm.nodes : "
    "self.fastertransformer.tensorParallelSize * self.fastertransformer.pipelineParallelSize)"
)
_OF_THE_CONTAINER = (
    "args",
    "env",
    "image",
    "imagePullSecrets",
    "resources",
    "initResources",
    "nodeSelector",
    "tolerations",
    "affinity",
    "topologySpreadConstraints",
    "runtimeClassName",
    "priorityClassName",
    "serviceAccountName",
    "labels",
    "annotations",
)


class EngineSpec(SpecPart):
    """Exactly one runtime block, and the container and the nodes that its engines get."""

    cpu: CpuEngineSpec | None = None
    """Serve the folder on CPU."""
    vllm: VllmEngineSpec | None = None
    """Serve the folder with vLLM on GPUs. On a cluster only."""
    tensorrtllm: TensorRtLlmEngineSpec | None = None
    """Serve a TensorRT-LLM engine on GPUs. On a cluster only."""
    fastertransformer: FasterTransformerEngineSpec | None = None
    """Serve a FasterTransformer checkpoint on GPUs. On a cluster only; needs image."""
    onnxruntime: OnnxRuntimeEngineSpec | None = None
    """Serve an ONNX file. On a cluster only."""
    python: PythonEngineSpec | None = None
    """Run a model.py of Triton's Python backend. On a cluster only."""
    external: ExternalEngineSpec | None = None
    """Use a Triton server that someone else runs."""

    args: Arguments = ()
    """Further options of tritonserver, each written --name or --name=value. Those that Conch sets itself are refused.
    On a cluster only. Default: none."""
    env: Environment = ()
    """Further environment variables; no secrets. On a cluster only. Default: none."""
    image: ImageReference | None = None
    """The image with tritonserver and the runtime's backend. On a cluster only. Default: the runtime's own."""
    image_pull_secrets: Annotated[tuple[ImagePullSecret, ...], Field(max_length=8)] = ()
    """Secrets to pull the images with. On a cluster only. Default: none."""
    resources: ResourcesSpec | None = None
    """What each engine's container gets. On a cluster only. Default, for each resource that is not named: a request of
    100m of cpu and 256Mi of memory, no limit."""
    init_resources: ResourcesSpec | None = None
    """What each container beside the engine gets: those that prepare the folder before it starts, the download and the
    agent. On a cluster only. Default, for each resource that is not named: the chart's engines.initResources."""
    node_selector: NodeLabels | None = None
    """Labels that a node must have. On a cluster only. Default: none."""
    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=16)] = ()
    """Taints that the engines tolerate. On a cluster only. Default: none."""
    affinity: AffinitySpec | None = None
    """Rules about nodes and other pods. On a cluster only. Default: none."""
    topology_spread_constraints: SpreadConstraints | None = None
    """How the engines are spread over nodes and zones. On a cluster only. Default: evenly over both where that is
    possible."""
    runtime_class_name: ObjectName | None = None
    """The RuntimeClass of the engines' pods, such as nvidia. On a cluster only. Default: the cluster's."""
    priority_class_name: ObjectName | None = None
    """The PriorityClass of the engines' pods. On a cluster only. Default: the cluster's."""
    service_account_name: ObjectName | None = None
    """The ServiceAccount of the engines' pods, which get no token of it. On a cluster only. Default: default."""
    labels: PodLabelValues | None = None
    """Further labels of the engines' pods; those that Conch sets itself are refused. On a cluster only. Default:
    none."""
    annotations: PodAnnotations | None = None
    """Further annotations of the engines' pods; those that Conch sets itself are refused. On a cluster only. Default:
    none."""

    one_runtime: ClassVar[Rule] = one_of(*Runtime, hint=" (write `cpu: {}` for the cpu runtime's defaults)")
    same_runtime: ClassVar[Transition] = Transition(
        " && ".join(f"has(self.{runtime}) == has(oldSelf.{runtime})" for runtime in Runtime),
        "the runtime cannot be changed: delete the ModelDeployment and make it again, or give the new one another name",
    )

    @rule(
        cel=f"!has(self.external) || ({' && '.join(f'!has(self.{field})' for field in _OF_THE_CONTAINER)})",
        message=f"an external engine is not started by Conch: remove {', '.join(_OF_THE_CONTAINER)}",
    )
    def _external_has_no_container(self) -> bool:
        return self.external is None or not (
            any((self.args, self.env, self.image_pull_secrets, self.tolerations))
            or set(fields_set_in(self)) & set(_OF_THE_CONTAINER) - {"args", "env", "imagePullSecrets", "tolerations"}
        )

    @rule(
        cel="!has(self.fastertransformer) || has(self.image)",
        message="fastertransformer needs image: name the one that you built, nobody publishes one",
    )
    def _fastertransformer_has_an_image(self) -> bool:
        return self.fastertransformer is None or self.image is not None

    @rule(
        cel=f"!{_GPU_RUNTIMES} || ({_GPU_LIMITS}{_GPU_AMOUNT}.isGreaterThan(quantity('0'))))",
        message="vllm, tensorrtllm and fastertransformer need a GPU: set resources.limits, such as nvidia.com/gpu: 1 "
        "or amd.com/gpu: 1",
    )
    def _gpu_runtimes_have_gpus(self) -> bool:
        return self._of_gpus is None or any(amount > 0 for amount in self._gpu_limits())

    @rule(
        cel=f"!{_GPU_RUNTIMES} || ({_GPU_LIMITS}(self.resources.limits[name] == {_GPUS_NEEDED} || "
        f"self.resources.limits[name] == string({_GPUS_NEEDED}))))",
        message="tensorParallelSize times pipelineParallelSize (divided by nodes) must be the number of GPUs of one "
        "container: make resources.limits, such as nvidia.com/gpu, equal to it",
    )
    def _gpus_are_those_asked_for(self) -> bool:
        return self._of_gpus is None or self._of_gpus.gpus_per_pod in self._gpu_limits()

    @property
    def runtime(self) -> Runtime:
        """Return which block is set."""
        return next(runtime for runtime in Runtime if runtime in fields_set_in(self))

    @property
    def loads_a_hub_folder(self) -> bool:
        """Return whether GPUs load a Hugging Face folder as it is: one format of its weights is enough."""
        llm_api = self.tensorrtllm is not None and self.tensorrtllm.backend is TensorRtLlmBackend.PYTORCH
        return self.vllm is not None or llm_api

    @property
    def _of_gpus(self) -> GpuEngineSpec | None:
        return self.vllm or self.tensorrtllm or self.fastertransformer

    def _gpu_limits(self) -> list[Decimal]:
        limits = (self.resources and self.resources.limits) or {}
        return [quantity_value(amount) for name, amount in limits.items() if is_accelerator(name)]


def is_accelerator(resource: str) -> bool:
    """Return whether a resource is a GPU, or a part of one, or another device that computes; of any vendor."""
    return "/" in resource and not resource.startswith(_OTHER_DEVICES)


def container_fields(engine: EngineSpec) -> tuple[str, ...]:
    """Return the API's names of those fields that say what an engine's pod is like, as far as they are set."""
    return tuple(
        field.alias or name
        for name, field in type(engine).model_fields.items()
        if (field.alias or name) in _OF_THE_CONTAINER and engine.__dict__[name] != field.default
    )
