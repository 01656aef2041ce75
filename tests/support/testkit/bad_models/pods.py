"""Specs with pods that could not run, or that would not be Conch's own any more."""

from typing import Any

from testkit.bad_models.case import EXTERNAL, GPU, Case, cpu, engine


def _gpus(count: int, resource: str) -> dict[str, Any]:
    return {"vllm": {"tensorParallelSize": count}, "resources": {"limits": {resource: count, "rdma/ib": 8}}}


def _spread(**fields: Any) -> dict[str, Any]:
    return {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **fields}


POD_CASES = (
    *(
        Case(
            9,
            f"the label {label}",
            cpu(labels={label: "chat"}),
            "spec.engine.labels",
            cpu(
                labels={
                    "app.kubernetes.io/part-of": "chat",
                    "team": "a.b",
                    "Conch.dev": "",
                    "example.com/conch.dev": "1",
                }
            ),
            "not yours to set",
        )
        for label in ("conch.dev/model-deployment", "app.kubernetes.io/component", "pod-template-hash")
    ),
    *(
        Case(
            9,
            f"the annotation {annotation}",
            cpu(annotations={annotation: "unconfined"}),
            "spec.engine.annotations",
            cpu(annotations={"prometheus.io/scrape": "true", "note": "All of it: a text\nof two lines."}),
            "not yours to set",
        )
        for annotation in ("conch.dev/engine", "container.apparmor.security.beta.kubernetes.io/triton")
    ),
    *(
        Case(
            9, f"a {field} with the key {key!r}", cpu(**{field: {key: "1"}}), f"spec.engine.{field}", {}, "have keys as"
        )
        for field, key in (("labels", "my team"), ("labels", "a/b/c"), ("annotations", ""), ("annotations", "t" * 64))
    ),
    Case(
        9,
        "a label of two words",
        cpu(labels={"team": "a b"}),
        "spec.engine.labels.team",
        cpu(annotations={"team": "a b"}),
    ),
    Case(
        9,
        "one spread twice",
        cpu(topologySpreadConstraints=[_spread(), _spread(maxSkew=2)]),
        "spec.engine.topologySpreadConstraints",
        cpu(topologySpreadConstraints=[_spread(), _spread(whenUnsatisfiable="ScheduleAnyway")]),
        "remove one of the two",
    ),
    Case(
        9,
        "domains of a wish",
        cpu(topologySpreadConstraints=[_spread(minDomains=2, whenUnsatisfiable="ScheduleAnyway")]),
        "spec.engine.topologySpreadConstraints[0]",
        cpu(topologySpreadConstraints=[_spread(minDomains=2, matchLabelKeys=["pod-template-hash"])]),
        "minDomains needs",
    ),
    *(
        Case(
            10,
            f"an external engine with {field}",
            engine(external=EXTERNAL, **{field: value}),
            "spec.engine",
            cpu(**{field: value}),
            "not started by Conch",
        )
        for field, value in (
            ("priorityClassName", "serving"),
            ("serviceAccountName", "engines"),
            ("labels", {}),
            ("annotations", {}),
            ("topologySpreadConstraints", []),
            ("initResources", {"limits": {"cpu": 1}}),
        )
    ),
    Case(
        18, "a network card for a GPU", engine(**_gpus(1, "rdma/hca")), "spec.engine", engine(**_gpus(1, "amd.com/gpu"))
    ),
    *(
        Case(
            18,
            f"{backend} with {field}",
            engine(tensorrtllm={"backend": backend, field: value, **more}, **GPU),
            "spec.engine.tensorrtllm",
            engine(tensorrtllm={"backend": other, field: value, **more}, **GPU),
            says,
        )
        for backend, other, field, value, more, says in (
            ("pytorch", "tensorrt", "nodes", 2, {"tensorParallelSize": 2}, "runs in one pod"),
            ("tensorrt", "pytorch", "maxModelLen", 8192, {}, "belong to backend pytorch"),
            ("tensorrt", "pytorch", "textOutput", "Delta", {}, "belong to backend pytorch"),
        )
    ),
    *(
        Case(
            3,
            f"{runtime} for kind {kind}",
            {"kind": kind, **engine(**{runtime: {}}, **beside)},
            "spec",
            {"kind": other, **engine(**{runtime: {}}, **beside)},
            "choose cpu, python, external or one that suits",
        )
        for kind, other, runtime, beside in (
            ("LLM", "Rerank", "onnxruntime", {}),
            ("Rerank", "LLM", "vllm", GPU),
            ("Embedding", "LLM", "tensorrtllm", GPU),
            ("Classify", "LLM", "fastertransformer", {"image": "r.io/ft:1", **GPU}),
        )
    ),
    *(
        Case(
            18,
            f"one {resource} for two",
            engine(**(_gpus(2, resource) | {"resources": {"limits": {resource: "1"}}})),
            "spec.engine",
            engine(**_gpus(2, resource)),
            "must be the number of GPUs",
        )
        for resource in ("amd.com/gpu", "gpu.intel.com/xe", "denglin.com/gpu", "nvidia.com/mig-1g.5gb")
    ),
)
