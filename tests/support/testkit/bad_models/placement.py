"""Specs that the rules about placement refuse."""

from testkit.bad_models.case import Case, Spec, vllm

_POOL = {"pool": "encoders"}
_SMALL = "placement is for the kinds Embedding, Rerank and Classify with engine.cpu"
_ALONE = "with placement the pool decides when the model is loaded"


def _placed(**spec: object) -> Spec:
    return {"kind": "Embedding", "placement": _POOL, **spec}


PLACEMENT_CASES = (
    Case(31, "a language model in a pool", {"placement": _POOL}, "spec", _placed(), _SMALL),
    Case(31, "a model of speech in a pool", _placed(kind="Transcription"), "spec", _placed(kind="Rerank"), _SMALL),
    Case(
        31,
        "another runtime in a pool",
        _placed(engine={"onnxruntime": {}}),
        "spec",
        {"kind": "Embedding", "engine": {"onnxruntime": {}}},
        _SMALL,
    ),
    Case(31, "a GPU in a pool", {**vllm("1"), "placement": _POOL}, "spec", vllm("1"), _SMALL),
    Case(31, "replicas in a pool", _placed(replicas=2), "spec", _placed(replicas=1), _ALONE),
    Case(
        31,
        "scaling in a pool",
        _placed(scaling={"maxReplicas": 2}),
        "spec",
        {"kind": "Embedding", "scaling": {"maxReplicas": 2}},
        _ALONE,
    ),
    Case(
        31,
        "a size without a unit",
        _placed(placement={**_POOL, "sizeHint": 200}),
        "spec.placement.sizeHint",
        _placed(placement={**_POOL, "sizeHint": "200Mi", "pinned": True}),
        "at least 1Mi",
    ),
    Case(
        31,
        "the name of no pool",
        _placed(placement={"pool": "dots.in.it"}),
        "spec.placement.pool",
        _placed(placement={"pool": "a" * 40}),
    ),
    Case(31, "no pool", _placed(placement={"pinned": True}), "spec.placement.pool", _placed()),
)
