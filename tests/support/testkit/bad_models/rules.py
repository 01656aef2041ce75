"""Specs that a rule over one or several fields refuses."""

from testkit.bad_models.case import (
    EXTERNAL,
    GPU,
    Case,
    cpu,
    engine,
    env,
    generation,
    hub,
    node,
    routing,
    source,
    template,
    toleration,
    vllm,
)

_ONE_SOURCE = "set exactly one of huggingFace, s3, pvc, oci and path"
_ONE_RUNTIME = "set exactly one of cpu, vllm, tensorrtllm, fastertransformer, onnxruntime, python and external"
_ENV_NAME, _ENV_VALUE = "spec.engine.env[0].name", "spec.engine.env[0].value"

RULE_CASES = (
    Case(5, "two sources", source(path="a", pvc={"claimName": "b"}), "spec.source", hub(), _ONE_SOURCE),
    Case(5, "no source at all", source(), "spec.source", source(path="a"), _ONE_SOURCE),
    Case(5, "two runtimes", engine(cpu={}, python={}), "spec.engine", engine(python={}), _ONE_RUNTIME),
    Case(5, "no runtime", engine(), "spec.engine", {"kind": "Rerank", **engine(onnxruntime={})}, _ONE_RUNTIME),
    Case(
        5,
        "two templates",
        template(inline="a", file="b"),
        "spec.tokenizer.chatTemplate",
        template(configMapKeyRef={"name": "templates", "key": "tiny.jinja"}),
        "set exactly one of inline, file and configMapKeyRef",
    ),
    Case(
        12,
        "a size for a claim",
        hub(cache={"claimName": "models", "size": "1Gi"}),
        "spec.source.huggingFace.cache",
        hub(cache={"size": "1G"}),
        "remove size or claimName",
    ),
    Case(6, "a repository that climbs", hub(repo="a..b/c"), "spec.source.huggingFace", hub(), "two dots"),
    Case(6, "a revision that climbs", hub(revision="a..b"), "spec.source.huggingFace", hub(revision="a/b"), "two dots"),
    Case(
        7, "a served name twice", {"servedNames": ["a", "a"]}, "spec.servedNames", {"servedNames": ["a", "A"]}, "twice"
    ),
    Case(
        11,
        "a request above its limit",
        cpu(resources={"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"memory": "1025Mi"}}),
        "spec.engine.resources",
        cpu(resources={"limits": {"cpu": 1, "memory": "1Gi"}, "requests": {"memory": "1024Mi", "cpu": "999m"}}),
        "a request is above its limit",
    ),
    *(
        Case(
            11,
            f"requests of {requests} and limits of {limits}",
            cpu(resources={"requests": requests, "limits": limits}),
            "spec.engine.resources",
            cpu(
                resources={
                    "requests": {"cpu": 1, "amd.com/gpu": "1k"},
                    "limits": {"amd.com/gpu": 1000, "memory": "1Gi"},
                }
            ),
            "their request is their limit",
        )
        for requests, limits in (
            ({"nvidia.com/gpu": 1}, {"nvidia.com/gpu": 2}),
            ({"nvidia.com/gpu": 1}, {"cpu": 1}),
            ({"hugepages-2Mi": "4Mi"}, {"hugepages-2Mi": "8Mi"}),
        )
    ),
    Case(13, "no time", routing(timeout="0s"), "spec.routing.timeout", routing(timeout="1ms"), "more than zero"),
    Case(14, "too much time", routing(timeout="25h"), "spec.routing.timeout", routing(timeout="90m"), "at most 24h"),
    Case(
        14,
        "too hot",
        generation(temperature="2.1"),
        "spec.generation.temperature",
        generation(temperature="2"),
        "must be 0 to 2",
    ),
    Case(
        14,
        "no repetition penalty",
        generation(repetitionPenalty="0"),
        "spec.generation.repetitionPenalty",
        generation(repetitionPenalty="1.1"),
        "must be more than 0 and at most 10",
    ),
    Case(
        14,
        "an empty nucleus",
        generation(topP="0"),
        "spec.generation.topP",
        generation(topP="0.9", topK=0, minP="0"),
        "must be more than 0 and at most 1",
    ),
    Case(
        14,
        "a least probability above 1",
        generation(minP="1.1"),
        "spec.generation.minP",
        generation(minP="1"),
        "must be 0 to 1, in quotes",
    ),
    *(
        Case(
            14,
            f"a least probability for {name}",
            {**told, **generation(minP="0.1")},
            "spec",
            {**told, **generation(minP="0.0")},
            "generation.minP cannot be obeyed",
        )
        for name, told in (
            ("fastertransformer", engine(external={**EXTERNAL, "dialect": "fastertransformer"})),
            ("tensorrtllm", engine(external={**EXTERNAL, "dialect": "tensorrtllm"})),
        )
    ),
    *(
        Case(
            14,
            f"the fill-in template {wrong}",
            generation(fillIn=wrong),
            "spec.generation.fillIn",
            fill_in,
            "once each",
        )
        for fill_in in (generation(fillIn="<s>{suffix}<p>{prefix}<m>"),)
        for wrong in ("{prefix} alone", "{prefix}{suffix}{prefix}")
    ),
    Case(
        14,
        "a token below zero",
        generation(stopWords=[[-1]]),
        "spec.generation.stopWords",
        generation(stopWords=[[7768, 3908, 0], [1, 2, -1]], badWords=[[1], [2, 3], [4]]),
        "must not be negative",
    ),
    Case(
        17,
        "three tensor parts, two GPUs",
        vllm("2", tensorParallelSize=3),
        "tensorParallelSize",
        vllm("3", tensorParallelSize=3),
        "must be the number of GPUs",
    ),
    Case(
        17,
        "parts that nodes do not divide",
        engine(tensorrtllm={"tensorParallelSize": 3, "nodes": 2}, **GPU),
        "tensorParallelSize",
        engine(tensorrtllm={"tensorParallelSize": 2, "pipelineParallelSize": 2, "nodes": 4}, **GPU),
        "must be a multiple of nodes",
    ),
    Case(18, "no GPU", vllm("0"), "spec.engine", vllm("1"), "need a GPU"),
    Case(
        18,
        "no resources",
        engine(vllm={}),
        "spec.engine",
        engine(vllm={}, resources={"limits": {"nvidia.com/mig-1g.10gb": 1}}),
        "need a GPU",
    ),
    Case(
        18,
        "memory of a GPU above all",
        vllm("1", gpuMemoryUtilization="1.1"),
        "spec.engine.vllm.gpuMemoryUtilization",
        vllm("1", gpuMemoryUtilization="0.9"),
        "must be more than 0 and at most 1",
    ),
    Case(
        18,
        "no memory of a GPU",
        engine(tensorrtllm={"kvCacheFreeGpuMemoryFraction": "0.0"}, **GPU),
        "spec.engine.tensorrtllm.kvCacheFreeGpuMemoryFraction",
        engine(tensorrtllm={"kvCacheFreeGpuMemoryFraction": "0.5"}, **GPU),
        "must be more than 0 and at most 1",
    ),
    *(
        Case(20, option, cpu(args=[option]), "spec.engine.args", cpu(args=["--log-info=true"]), "args must not hold")
        for option in (
            "--trust-remote-code",
            "--api-key=x",
            "--host=0.0.0.0",
            "--http-addr=0.0.0.0",
            "--model-control-mode=explicit",
            "--grpc-keepalive-time=1",
        )
    ),
    *(
        Case(21, name, env(name), _ENV_NAME, env("OMP_NUM_THREADS"), "env must not set these variables")
        for name in (
            "LD_PRELOAD",
            "LD_AUDIT",
            "PYTHONPATH",
            "VLLM_SERVER_DEV_MODE",
            "NVIDIA_VISIBLE_DEVICES",
            "CONCH_PORT",
        )
    ),
    Case(
        21,
        "a variable twice",
        cpu(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]),
        "spec.engine.env",
        cpu(env=[{"name": "A", "value": "1"}, {"name": "B"}]),
        "env sets a variable twice",
    ),
    *(
        Case(25, f"a secret variable {name}", env(name), _ENV_NAME, env(plain), "env must not hold secrets")
        for name, plain in (
            ("HF_TOKEN", "MAX_TOKENS"),
            ("OPENAI_KEY", "MAX_TOKEN"),
            ("openai_api_key", "PAD_TOKEN"),
            ("DB_PWD", "PWD"),
            ("AWS_ACCESS_KEY_ID", "CACHE_KEY"),
        )
    ),
    *(
        Case(25, f"a token {kind} in a variable", env("A", value), _ENV_VALUE, env("A", plain), "a token or a key")
        for kind, value, plain in (
            ("of the Hub", "hf_" + "a" * 34, "hf_x"),
            ("of GitHub", "ghp_" + "a" * 36, "graph_" + "a" * 36),
            ("of OpenAI", "sk-" + "a" * 34, "risk-" + "a" * 34),
            ("within a text", "Bearer glpat-" + "a" * 20, "-----BEGIN CERTIFICATE-----"),
            ("that signs", "-----BEGIN RSA PRIVATE KEY-----", "-----BEGIN PUBLIC KEY-----"),
        )
    ),
    *(
        Case(14, name, routing(**refused), "spec.routing", routing(**accepted), "timeout ends the whole request")
        for name, refused, accepted in (
            ("a first token after the end", {"timeout": "1m", "firstTokenTimeout": "61s"}, {"timeout": "1m"}),
            ("a second token after the end", {"timeout": "1m", "interTokenTimeout": "2m"}, {"timeout": "1s"}),
            (
                "a queue that outlasts the request",
                {"timeout": "1m", "queue": {"wait": "90s"}},
                {"timeout": "1m", "firstTokenTimeout": "60s", "queue": {"wait": "60s"}},
            ),
        )
    ),
    Case(
        25,
        "a token in an argument",
        cpu(args=["--a=hf_" + "a" * 34]),
        "args[0]",
        cpu(args=["--log-verbose=1"]),
        "a token or a key",
    ),
    Case(
        27,
        "no image where none is published",
        engine(fastertransformer={}, **GPU),
        "spec.engine",
        engine(fastertransformer={}, image="r.io/ft:1", **GPU),
        "fastertransformer needs image",
    ),
    Case(
        22,
        "a container for what others run",
        engine(external=EXTERNAL, image="r.io/a"),
        "spec.engine",
        engine(external=EXTERNAL),
        "an external engine is not started by Conch: remove args",
    ),
    Case(
        2,
        "two of what others run",
        {"replicas": 2, **engine(external=EXTERNAL)},
        "replicas",
        {"replicas": 1, **engine(external=EXTERNAL)},
        "an external engine is not started by Conch: remove replicas",
    ),
    Case(
        1,
        "an external engine nowhere",
        engine(external={"dialect": "tokens"}),
        "spec.engine.external",
        engine(external=EXTERNAL),
        "set grpc",
    ),
    Case(
        1,
        "an external LLM without gRPC",
        engine(external={"http": "triton:8000", "dialect": "tokens"}),
        "engine.external.grpc",
        {"kind": "Embedding", **engine(external={"http": "triton:8000"})},
        "kinds LLM and Transcription need engine.external.grpc",
    ),
    Case(
        1,
        "text from a model of ids",
        engine(external={**EXTERNAL, "textOutput": "Delta"}),
        "spec.engine.external",
        engine(external={**EXTERNAL, "dialect": "vllm", "textOutput": "Cumulative"}),
        "textOutput belongs to the dialects tensorrtllm and vllm",
    ),
    Case(
        1,
        "an external LLM without dialect",
        engine(external={"grpc": "triton:8001"}),
        "engine.external.dialect",
        {"kind": "Rerank", **engine(external={"grpc": "triton:8001"})},
        "kind LLM needs engine.external.dialect",
    ),
    Case(
        3,
        "a language model with an encoder's fields",
        {"maxTokens": 512},
        "spec",
        {"kind": "Embedding", "maxTokens": 512},
        "maxTokens, tensors and cache belong to encoders",
    ),
    Case(
        3,
        "pooling for a reranker",
        {"kind": "Rerank", "embedding": {"pooling": "cls"}},
        "spec",
        {"kind": "Embedding", "embedding": {"pooling": "cls"}},
        "embedding belongs to kind Embedding",
    ),
    Case(
        3,
        "usage in the streams of an encoder",
        {"kind": "Embedding", "streamUsage": "always"},
        "spec",
        {"streamUsage": "always"},
        "streamUsage belongs to kind LLM",
    ),
    Case(
        19,
        "an unknown place for the usage of a stream",
        {"streamUsage": "final_chunk"},
        "spec.streamUsage",
        {"streamUsage": "final-chunk"},
    ),
    Case(
        3,
        "an embedding model that generates",
        {"kind": "Embedding", **generation(maxLength=512)},
        "spec",
        generation(maxLength=512),
        "generation belongs to kind LLM",
    ),
    Case(
        3,
        "an encoder with quantized weights",
        {"kind": "Classify", **engine(cpu={"quantization": "int8"})},
        "spec",
        {"kind": "Classify", **engine(cpu={"quantization": "none", "tokensPerSecond": 0})},
        "quantization belongs to kind LLM",
    ),
    Case(
        3,
        "an encoder with a cap on tokens",
        {"kind": "Classify", **engine(cpu={"tokensPerSecond": 5})},
        "spec",
        {"kind": "Transcription", **engine(cpu={"tokensPerSecond": 5})},
        "tokensPerSecond to LLM and Transcription: remove what does not belong to this kind",
    ),
    Case(
        3,
        "a language model that speaks as an encoder",
        engine(external={**EXTERNAL, "dialect": "encoder"}),
        "spec",
        {"kind": "Rerank", **engine(external={**EXTERNAL, "dialect": "encoder"})},
        "engine.external.dialect is encoder for Embedding",
    ),
    Case(
        14,
        "a value for Exists",
        toleration(operator="Exists", value="a"),
        "tolerations[0]",
        toleration(operator="Exists"),
        "takes no value",
    ),
    Case(
        14,
        "seconds without NoExecute",
        toleration(key="a", tolerationSeconds=1),
        "tolerations[0]",
        toleration(key="a", effect="NoExecute", tolerationSeconds=1),
        "needs effect NoExecute",
    ),
    Case(
        14,
        "nothing to compare with",
        node(key="gpu", operator="In"),
        "matchExpressions[0]",
        node(key="example.com/gpu", operator="In", values=["a100", "h100"]),
        "one or more for In",
    ),
)
