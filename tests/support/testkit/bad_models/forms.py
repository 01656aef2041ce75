"""Specs that the form of one field refuses."""

from testkit.bad_models.case import EXTERNAL, SHA256, Case, cpu, engine, generation, hub, routing, s3, source, template

_AMOUNTS = (
    ("nvidia.com/gpu", "1.5", "1", "are counted whole"),
    ("amd.com/gpu", "500m", 2, "are counted whole"),
    ("example.com/gpu-memory", "1.5Gi", "3Gi", "are counted whole"),
    ("cpu", "1Mi", "1", "cpu is counted in cores"),
    ("cpu", "2k", "2e3", "cpu is counted in cores"),
    ("cpu", "1E", "1.5", "cpu is counted in cores"),
    ("memory", "2000000000m", "2000000000", "are counted in bytes"),
    ("memory", 512, 0, "at least 1Mi"),
    ("memory", "64k", "1.5Gi", "at least 1Mi"),
    ("ephemeral-storage", "4000000u", "4M", "are counted in bytes"),
    ("ephemeral-storage", "10", "10E", "at least 1Mi"),
    ("hugepages-2Mi", "4m", "0.5Gi", "are counted in bytes"),
)
"""Of a resource: an amount that is refused, one that is not, and what is said."""

FORM_CASES = (
    Case(1, "no source", {"source": None}, "spec.source", {}),
    Case(1, "no engine", {"engine": None}, "spec.engine", {}),
    Case(1, "no kind", {"kind": None}, "spec.kind", {}),
    Case(2, "replicas below zero", {"replicas": -1}, "spec.replicas", {"replicas": 0}),
    Case(2, "a thousand million replicas", {"replicas": 10**9}, "spec.replicas", {"replicas": 1000}),
    Case(2, "replicas in quotes", {"replicas": "2"}, "spec.replicas", {"replicas": 2}),
    Case(2, "half a replica", {"replicas": 1.5}, "spec.replicas", {"replicas": 1}),
    Case(3, "a typing error", {"replcas": 2}, "spec.replcas", {"replicas": 2}),
    Case(3, "a typing error in a block", engine(cpu={"maxBatchsize": 2}), "maxBatchsize", engine(cpu={})),
    Case(7, "a served name of 300 characters", {"servedNames": ["a" * 300]}, "spec.servedNames[0]", {}),
    Case(
        7,
        "a served name that climbs",
        {"servedNames": ["../x"]},
        "spec.servedNames[0]",
        {"servedNames": ["a/x"]},
        "must be a name of letters",
    ),
    Case(
        11,
        "memory in gigabytes",
        cpu(resources={"limits": {"memory": "4GB"}}),
        "resources.limits.memory",
        cpu(resources={"limits": {"memory": "4G"}}),
        "must be a quantity that is not negative",
    ),
    Case(11, "cpu abc", cpu(resources={"limits": {"cpu": "abc"}}), "resources.limits.cpu", cpu(), "must be a quantity"),
    Case(
        11,
        "a label that is none",
        cpu(nodeSelector={"a b": "x"}),
        "nodeSelector",
        cpu(nodeSelector={"a.b/c": "x"}),
        "must have labels for keys",
    ),
    Case(
        6,
        "a repository's page",
        hub(repo="https://huggingface.co/Qwen/Qwen3-0.6B"),
        "spec.source.huggingFace.repo",
        hub(repo="_org/_Qwen3-0.6B"),
        "must be a repository as owner/name",
    ),
    Case(6, "a revision of words", hub(revision="the last"), "huggingFace.revision", hub(revision="v1/a"), "a branch"),
    Case(
        20,
        "a variable with a space",
        cpu(env=[{"name": "A B", "value": "x"}]),
        "env[0].name",
        cpu(env=[{"name": "a.b", "value": "x"}, {"name": "_A-B"}]),
        "must be a variable's name",
    ),
    Case(
        11,
        "memory below zero",
        cpu(resources={"requests": {"memory": "-1Gi"}}),
        "resources.requests.memory",
        cpu(resources={"requests": {"memory": "1e9", "cpu": ".5", "ephemeral-storage": "1.5Gi"}}),
    ),
    Case(
        11,
        "cpu below zero",
        cpu(resources={"limits": {"cpu": -1}}),
        "resources.limits.cpu",
        cpu(resources={"limits": {"cpu": 0}}),
    ),
    Case(
        6,
        "a URL for an address",
        engine(external={**EXTERNAL, "grpc": "http://triton:8001"}),
        "spec.engine.external.grpc",
        engine(external={**EXTERNAL, "grpc": "10gpu:8001", "http": "[fd00::9]:8001"}),
        "must be host:port",
    ),
    Case(
        6,
        "a port above all",
        engine(external={**EXTERNAL, "grpc": "10.0.0.1:65536"}),
        "spec.engine.external.grpc",
        engine(external={**EXTERNAL, "grpc": "10.0.0.1:65535"}),
        "the port is 1 to 65535",
    ),
    Case(
        6,
        "port 0",
        engine(external={**EXTERNAL, "http": "triton:0"}),
        "spec.engine.external.http",
        engine(external={**EXTERNAL, "http": "triton:1"}),
        "the port is 1 to 65535",
    ),
    Case(
        6,
        "a bucket's server at no port",
        source(s3={"uri": "s3://bucket/folder", "endpoint": "https://minio:99999/x"}),
        "spec.source.s3.endpoint",
        source(s3={"uri": "s3://bucket/folder", "endpoint": "https://minio:59999/x"}),
        "a port is 1 to 65535",
    ),
    *(
        Case(
            6,
            f"an address {wrong}",
            engine(external={**EXTERNAL, "grpc": wrong}),
            "spec.engine.external.grpc",
            engine(external={**EXTERNAL, "grpc": good}),
            "must be host:port",
        )
        for wrong, good in (
            ("999.999.999.999:8001", "255.249.199.9:8001"),
            ("10.0.0.256:8001", "0gpu.example:8001"),
            ("0xa9fea9fe:80", "0-gpu:80"),
            ("010.0.0.1:80", "4x4:80"),
        )
    ),
    Case(
        27,
        "an image at no port",
        cpu(image="registry.example.com:99999/a"),
        "spec.engine.image",
        cpu(image="registry.example.com:59999/a:99999"),
        "must be an image",
    ),
    *(
        Case(
            11,
            f"a resource {name!r}",
            cpu(resources={"limits": {name: 1}}),
            "resources.limits",
            cpu(resources={"limits": {"amd.com/gpu": 1, "hugepages-2Mi": "4Mi", "ephemeral-storage": "1Gi"}}),
            "must name resources",
        )
        for name in ("my cpu", "CPU", "gpu", "nvidia.com/", "nvidia.com/gpu x")
    ),
    *(
        Case(
            11,
            f"{amount!r} of {name}",
            cpu(**{block: {kind: {name: amount}}}),
            f"spec.engine.{block}.{kind}",
            cpu(**{block: {kind: {name: good}, "limits": {name: good}}}),
            says,
        )
        for block, kind in (("resources", "requests"), ("resources", "limits"), ("initResources", "limits"))
        for name, amount, good, says in _AMOUNTS
    ),
    *(
        Case(
            12,
            f"a cache of {amount!r}",
            s3(uri="s3://models/a", cache={"size": amount}),
            "spec.source.s3.cache.size",
            s3(uri="s3://models/a", cache={"size": enough}),
            "must be at least 1Mi",
        )
        for amount, enough in (("4000000000m", "4G"), (40, "40Gi"), ("0", "1048576"))
    ),
    *(
        Case(6, f"a claim {name}", source(pvc={"claimName": name}), "claimName", source(pvc={"claimName": "a.b"}))
        for name in ("a..b", "a.-b", ".a")
    ),
    Case(
        24,
        "a key that climbs",
        hub(tokenSecretRef={"name": "hub", "key": ".."}),
        "tokenSecretRef.key",
        hub(tokenSecretRef={"name": "hub", "key": ".a..b"}),
    ),
    *(
        Case(6, name, source(path=path), "spec.source.path", source(path="models/t\u00efny (2) %/x"), says)
        for name, path, says in (
            ("a path with a line break", "a\nb", "must not hold line breaks"),
            ("a path that turns its text round", "a\u202egnp", "must not hold line breaks"),
            ("a URL for a path", "file:///etc", "must be a path and no URL"),
        )
    ),
    Case(7, "no served name", {"servedNames": []}, "spec.servedNames", {"servedNames": ["a"]}, "servedNames is empty"),
    Case(13, "a queue of none", routing(queue={"max": 0}), "spec.routing.queue.max", routing(queue={"max": 1})),
    Case(
        14,
        "a time below zero",
        routing(timeout="-1s"),
        "spec.routing.timeout",
        routing(timeout="1s"),
        "must be a duration",
    ),
    Case(
        14,
        "a time of 1e18",
        routing(timeout="1e18s"),
        "spec.routing.timeout",
        routing(timeout="24h"),
        "must be a duration",
    ),
    Case(
        14,
        "a time without unit",
        routing(timeout="90"),
        "spec.routing.timeout",
        routing(timeout="1m30s"),
        "must be a duration",
    ),
    Case(14, "a number for a time", routing(queue={"wait": 30}), "spec.routing.queue.wait", routing()),
    Case(15, "a float", generation(temperature=0.7), "spec.generation.temperature", generation(temperature="0.7")),
    Case(15, "an exponent", generation(temperature="1e0"), "spec.generation.temperature", generation()),
    Case(19, "an unknown runtime", engine(cpu={}, sglang={}), "spec.engine.sglang", cpu()),
    Case(19, "an unknown quantization", engine(cpu={"quantization": "int2"}), "cpu.quantization", cpu()),
    Case(19, "an unknown kind", {"kind": "Reranker"}, "spec.kind", {"kind": "Rerank"}),
    Case(
        20,
        "an argument without dashes",
        cpu(args=["0.0.0.0"]),
        "spec.engine.args[0]",
        cpu(args=["--log-verbose=1"]),
        "must be one option",
    ),
    Case(22, "a pod template", cpu(podTemplate={"spec": {"hostNetwork": True}}), "spec.engine.podTemplate", cpu()),
    Case(22, "a security context", cpu(securityContext={"privileged": True}), "spec.engine.securityContext", cpu()),
    Case(22, "a folder of the node", source(hostPath={"path": "/"}, path="x"), "spec.source.hostPath", {}),
    Case(
        23,
        "the token of a service account",
        cpu(automountServiceAccountToken=True),
        "spec.engine.automountServiceAccountToken",
        cpu(serviceAccountName="engines"),
    ),
    Case(
        24,
        "a secret of another namespace",
        hub(tokenSecretRef={"name": "hub", "namespace": "other"}),
        "tokenSecretRef.namespace",
        hub(tokenSecretRef={"name": "hub", "key": "token"}),
    ),
    Case(25, "a token in the spec", hub(token="hf_" + "a" * 34), "spec.source.huggingFace.token", hub()),
    Case(
        27,
        "an image that is none",
        cpu(image="a b"),
        "spec.engine.image",
        cpu(image=f"r.io:5000/a/b:1@{SHA256}"),
        "must be an image",
    ),
    Case(
        29, "a template of 1 MB", template(inline="x" * 1_048_576), "chatTemplate.inline", template(inline="x" * 9999)
    ),
    Case(6, "a bucket of one letter", s3(uri="s3://b/x"), "spec.source.s3.uri", s3(uri="s3://bkt/x"), "3 to 63"),
    Case(6, "a file for a bucket", s3(uri="file:///etc"), "spec.source.s3.uri", s3(), "must be s3://"),
    Case(
        6,
        "a bucket that climbs",
        s3(uri="s3://../"),
        "spec.source.s3.uri",
        s3(uri="s3://models/My Models (v1, final)/c/"),
        "must be s3://",
    ),
    Case(
        6,
        "a folder that climbs",
        s3(uri="s3://models/../x"),
        "spec.source.s3.uri",
        s3(uri="s3://models"),
        "must be s3://",
    ),
    Case(
        6,
        "a file for a server",
        s3(endpoint="file:///etc"),
        "s3.endpoint",
        s3(endpoint="https://minio:9000"),
        "must be a URL",
    ),
    Case(
        6,
        "a server with a user",
        s3(endpoint="http://u:p@minio"),
        "s3.endpoint",
        s3(endpoint="http://10.0.0.9/s3"),
        "must be a URL",
    ),
    Case(
        6,
        "an address as a number",
        s3(endpoint="http://2852039166"),
        "s3.endpoint",
        s3(endpoint="http://[fd00::9]:9"),
        "must be a URL",
    ),
    Case(
        6,
        "a volume path that climbs",
        source(pvc={"claimName": "models", "path": "../x"}),
        "spec.source.pvc.path",
        source(pvc={"claimName": "models", "path": "team/tiny-1.5"}),
        "must be a path below",
    ),
    Case(
        6,
        "an absolute path in an image",
        source(oci={"image": "r.io/a", "path": "/etc"}),
        "spec.source.oci.path",
        source(oci={"image": "r.io/a", "path": "models"}),
        "must be a path below",
    ),
)
