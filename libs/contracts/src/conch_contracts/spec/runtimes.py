"""The runtime blocks: the few settings of each runtime that a user chooses; Conch renders the rest."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from conch_contracts.cpu_runtime import Quantization
from conch_contracts.dialects.whisper_bls import LEAST_WINDOW_TOKENS, MOST_WINDOW_TOKENS
from conch_contracts.records import Dialect, TextOutput
from conch_contracts.spec.addresses import Address
from conch_contracts.spec.fields import DecimalString, Flag, Integer, ObjectName, RelativePath, SpecPart, within
from conch_contracts.spec.rule_types import rule

TritonModelName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+$", max_length=200)]
Parallelism = Annotated[Integer, Field(ge=1, le=64)]
Instances = Annotated[Integer, Field(ge=1, le=64)]
BatchSize = Annotated[Integer, Field(ge=1, le=1024)]
Fraction = Annotated[DecimalString, within(0, 1, low_too=False)]


class Runtime(StrEnum):
    """How an engine is built and started; the value is the name of its block in `spec.engine`."""

    CPU = "cpu"
    VLLM = "vllm"
    TENSORRTLLM = "tensorrtllm"
    FASTERTRANSFORMER = "fastertransformer"
    ONNXRUNTIME = "onnxruntime"
    PYTHON = "python"
    EXTERNAL = "external"


class CpuEngineSpec(SpecPart):
    """The runtime that serves a Hugging Face folder on CPU: a causal language model, an encoder or a Whisper."""

    quantization: Quantization = Quantization.NONE
    """How the weights are held: none (32-bit floats), int8 or int4; for kind LLM. Default: none."""
    max_batch_size: BatchSize = 16
    """Requests that one engine decodes together; more wait inside it. Of encoders: texts in one batch; of
    speech: windows of 30 s. Default: 16."""
    tokens_per_second: Annotated[Integer, Field(ge=0, le=1_000_000)] = 0
    """A cap on each request's tokens per second, for tests and demonstrations of kinds LLM and Transcription; 0 means
    none. Default: 0."""


class GpuEngineSpec(SpecPart):
    """What the runtimes that split one model over GPUs have in common."""

    tensor_parallel_size: Parallelism = 1
    """GPUs that share each layer. Default: 1."""
    pipeline_parallel_size: Parallelism = 1
    """Groups of GPUs that hold consecutive layers. Default: 1."""

    @property
    def gpus_per_pod(self) -> int:
        """Return how many GPUs each pod of one engine needs."""
        return self.tensor_parallel_size * self.pipeline_parallel_size


class VllmDtype(StrEnum):
    """How vLLM holds weights and activations."""

    AUTO = "auto"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    FLOAT32 = "float32"


class CompileCacheSpec(SpecPart):
    """Where an engine keeps what it has compiled, so that the next one starts faster."""

    claim_name: ObjectName
    """A PersistentVolumeClaim in the ModelDeployment's namespace that pods may write; the source's own will do. Below
    .conch/vllm on it each image, model and set of settings has a folder of its own."""


class VllmEngineSpec(GpuEngineSpec):
    """vLLM inside Triton (its vLLM backend); the fields are engine arguments of vLLM."""

    dtype: VllmDtype = VllmDtype.AUTO
    """How weights and activations are held: auto, float16, bfloat16 or float32. Default: auto, as in config.json."""
    max_model_len: Annotated[Integer, Field(ge=1, le=16_777_216)] | None = None
    """Tokens of prompt and answer together. Default: what the model's config.json allows."""
    max_num_seqs: Annotated[Integer, Field(ge=1, le=4096)] | None = None
    """Requests that one engine decodes together. Default: vLLM's."""
    gpu_memory_utilization: Fraction | None = None
    """The part of each GPU's memory that vLLM takes, above 0 to 1, in quotes. Default: vLLM's, 0.9 or in newer
    versions 0.92."""
    compile_cache: CompileCacheSpec | None = None
    """Where the graphs are kept that vLLM compiles. Default: the claim of the source's cache; without one, and with
    source.pvc, whose claim need not be writable, each pod compiles for itself."""


class TensorRtLlmBackend(StrEnum):
    """What of TensorRT-LLM computes; the values are those of its LLM API's `backend`."""

    TENSORRT = "tensorrt"
    PYTORCH = "pytorch"


class TensorRtLlmEngineSpec(GpuEngineSpec):
    """TensorRT-LLM inside Triton, on an engine that trtllm-build made or on a Hugging Face folder."""

    backend: TensorRtLlmBackend = TensorRtLlmBackend.TENSORRT
    """What computes. tensorrt: the engine that trtllm-build made, which is in the source beside the tokenizer; newer
    versions of TensorRT-LLM have removed it. pytorch: its LLM API, on a Hugging Face folder; needs an image with
    /app/all_models/llmapi. Default: tensorrt."""
    nodes: Annotated[Integer, Field(ge=1, le=16)] = 1
    """Pods that one engine spans; its GPUs are divided evenly among them. This version starts 1 only, and says NotHere
    for more. Default: 1."""
    model_name: TritonModelName = "tensorrt_llm"
    """The model's name inside Triton. Default: tensorrt_llm."""
    max_batch_size: BatchSize = 64
    """Requests that one engine decodes together; at most what an engine was built for. Default: 64."""
    max_model_len: Annotated[Integer, Field(ge=1, le=16_777_216)] | None = None
    """With backend pytorch: tokens of prompt and answer together. Default: what the model's config.json allows."""
    kv_cache_free_gpu_memory_fraction: Fraction | None = None
    """The part of the memory left after loading that holds the key-value cache, above 0 to 1, in quotes.
    Default: TensorRT-LLM's, "0.9"."""
    enable_kv_cache_reuse: Flag = False
    """Whether requests share the cache of equal beginnings; an engine must be built with paged context attention.
    Default: false."""
    text_output: TextOutput | None = None
    """With backend pytorch: what each message of the image's model holds: Cumulative, the whole answer so far, or
    Delta, only what is new. Default: Cumulative."""

    @property
    def gpus_per_pod(self) -> int:
        """Return how many GPUs each pod of one engine needs."""
        return self.tensor_parallel_size * self.pipeline_parallel_size // self.nodes

    @rule(
        cel="(self.tensorParallelSize * self.pipelineParallelSize) % self.nodes == 0",
        message="tensorParallelSize times pipelineParallelSize must be a multiple of nodes: change one of the three",
    )
    def _nodes_fit(self) -> bool:
        return self.tensor_parallel_size * self.pipeline_parallel_size % self.nodes == 0

    @rule(
        cel="self.backend != 'pytorch' || self.nodes == 1",
        message="backend pytorch runs in one pod: remove nodes",
    )
    def _llm_api_is_one_pod(self) -> bool:
        return self.backend is TensorRtLlmBackend.TENSORRT or self.nodes == 1

    @rule(
        cel="self.backend == 'pytorch' || (!has(self.maxModelLen) && !has(self.textOutput))",
        message="maxModelLen and textOutput belong to backend pytorch: remove them, or use generation.maxLength",
    )
    def _engines_are_built_for_a_length(self) -> bool:
        built = self.backend is TensorRtLlmBackend.TENSORRT
        return not built or (self.max_model_len is None and self.text_output is None)


class FasterTransformerDataType(StrEnum):
    """How FasterTransformer computes."""

    FP32 = "fp32"
    FP16 = "fp16"
    BF16 = "bf16"


class FasterTransformerEngineSpec(GpuEngineSpec):
    """FasterTransformer inside Triton; the source holds the converted checkpoint and the tokenizer."""

    model_name: TritonModelName = "fastertransformer"
    """The model's name inside Triton. Default: fastertransformer."""
    model_type: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+$", max_length=64)] = "GPT"
    """The backend's `model_type`: GPT, GPT-J, GPT-NeoX, Llama, or what the image was built for. Default: GPT."""
    data_type: FasterTransformerDataType = FasterTransformerDataType.FP16
    """How it computes: fp32, fp16 or bf16. Default: fp16."""
    checkpoint: RelativePath | None = None
    """The folder of the converted checkpoint, below the source's. Default: the source's own."""
    max_batch_size: BatchSize = 64
    """Requests that one engine decodes together. Default: 64."""


class OnnxRuntimeEngineSpec(SpecPart):
    """ONNX Runtime inside Triton; on the GPU when engine.resources.limits names one, else on the CPU."""

    file: RelativePath = "model.onnx"
    """The model's file, below the source's folder. Default: model.onnx."""
    max_batch_size: BatchSize = 32
    """Rows that are computed together. Default: 32."""
    instances: Instances = 1
    """Copies of the model in one engine. Default: 1."""
    threads: Annotated[Integer, Field(ge=0, le=1024)] = 0
    """Threads of each copy on the CPU; 0: as many as the container may use. Default: 0."""


class PythonEngineSpec(SpecPart):
    """A model of Triton's Python backend: the source holds its model.py, which runs with the engine's rights.

    For kind LLM it speaks Conch's tokens dialect, for Transcription the speech dialect, for the other kinds the encoder
    dialect.
    """

    max_batch_size: Annotated[Integer, Field(ge=0, le=1024)] = 0
    """Rows that Triton hands over together; 0: the model batches by itself. Default: 0."""
    instances: Instances = 1
    """Copies of the model in one engine, each a process. Default: 1."""
    environment: RelativePath | None = None
    """An archive made by conda-pack with the Python packages that model.py needs, below the source's folder.
    Default: those of the image."""


class ExternalEngineSpec(SpecPart):
    """A Triton server that someone else runs; `source` then gives the tokenizer only."""

    grpc: Address | None = None
    """host:port of its gRPC endpoint. Needed for kinds LLM and Transcription."""
    http: Address | None = None
    """host:port of its HTTP endpoint."""
    model_name: TritonModelName | None = None
    """The model's name inside Triton. Default: metadata.name."""
    dialect: Dialect | None = None
    """The tensor contract that the model speaks: tokens, fastertransformer, tensorrtllm or vllm; for kind
    Transcription speech or whisper_bls, by default speech; encoder for the other kinds. Needed for kind LLM."""
    text_output: TextOutput | None = None
    """What each message of a model that answers with text holds: Delta, only what is new, or Cumulative, the whole
    answer so far. Default: what the model's own config suggests, which docs/backends.md explains."""
    window_tokens: Annotated[Integer, Field(ge=LEAST_WINDOW_TOKENS, le=MOST_WINDOW_TOKENS)] | None = None
    """For dialect whisper_bls: tokens after which its model ends the text of a window, 50 for TensorRT-LLM's
    whisper_bls, 96 for sherpa's infer_bls. What may have been cut there is heard again in halves. Default: 50."""

    @rule(
        cel="has(self.grpc) || has(self.http)",
        message="set grpc (or http, for Embedding, Rerank and Classify) to the server's host:port",
    )
    def _has_an_address(self) -> bool:
        return self.grpc is not None or self.http is not None

    @rule(
        cel="!has(self.textOutput) || (has(self.dialect) && self.dialect in ['tensorrtllm', 'vllm'])",
        message="textOutput belongs to the dialects tensorrtllm and vllm: remove it",
    )
    def _text_output_is_for_text(self) -> bool:
        return self.text_output is None or self.dialect in (Dialect.TENSORRTLLM, Dialect.VLLM)

    @rule(
        cel="!has(self.windowTokens) || (has(self.dialect) && self.dialect == 'whisper_bls')",
        message="windowTokens belongs to the dialect whisper_bls: remove it",
    )
    def _window_tokens_are_for_whisper(self) -> bool:
        return self.window_tokens is None or self.dialect is Dialect.WHISPER_BLS
