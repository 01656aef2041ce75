"""Specs that say what a model takes of pictures."""

from testkit.bad_models.case import GPU, Case, Spec, engine, vllm


def _images(**fields: object) -> Spec:
    return {"multimodal": {"images": fields}}


PICTURE_CASES = (
    *(
        Case(
            3,
            f"{kind} that sees",
            {"kind": kind, **_images(max=1)},
            "spec",
            _images(max=1),
            "multimodal belongs to the kinds LLM and Embedding",
        )
        for kind in ("Rerank", "Transcription")
    ),
    Case(
        3,
        "pictures for fastertransformer",
        {**engine(fastertransformer={}, image="r.io/ft:1", **GPU), **_images(max=1)},
        "spec",
        {**vllm("1"), **_images(max=1)},
        "fastertransformer takes text alone",
    ),
    Case(2, "fewer pictures than none", _images(max=-1), "spec.multimodal.images.max", _images(max=0)),
    Case(2, "very many pictures", _images(max=257), "spec.multimodal.images.max", _images(max=256)),
    Case(2, "pictures of no pixels", _images(maxPixels=0), "spec.multimodal.images.maxPixels", _images(maxPixels=1)),
    Case(2, "pictures of no bytes", _images(maxBytes=0), "spec.multimodal.images.maxBytes", _images(maxBytes=1)),
    *(
        Case(
            2,
            f"pictures from {domain}",
            _images(allowedDomains=[domain]),
            "spec.multimodal.images.allowedDomains[0]",
            _images(allowedDomains=["pictures.example.com", "*", "*.10.example", "localhost"]),
            "must be the name of a host in lower case",
        )
        for domain in ("https://example.com", "*example.com", "a.*", "Example.com", "example.com:443", "", "a..b")
    ),
    Case(3, "pictures by another name", {"multimodal": {"videos": {}}}, "spec.multimodal.videos", {"multimodal": {}}),
)
