"""Specs of kind Transcription, and of others that ask for what is its alone."""

from testkit.bad_models.case import EXTERNAL, GPU, Case, cpu, engine, generation, template, vllm

SPEECH_CASES = (
    Case(
        3,
        "speech with quantized weights",
        {"kind": "Transcription", **engine(cpu={"quantization": "int8"})},
        "spec",
        {"kind": "Transcription", **engine(cpu={"quantization": "none", "maxBatchSize": 4})},
        "quantization belongs to kind LLM",
    ),
    *(
        Case(3, f"speech with {runtime}", {"kind": "Transcription", **refused}, "spec", accepted, "choose cpu, python")
        for runtime, refused, accepted in (
            ("vllm", vllm("1"), {"kind": "Transcription", **engine(python={})}),
            ("onnxruntime", engine(onnxruntime={}), {"kind": "Rerank", **engine(onnxruntime={})}),
            ("tensorrtllm", engine(tensorrtllm={}, **GPU), {"kind": "Transcription", **cpu()}),
        )
    ),
    *(
        Case(3, f"speech with {field}", {"kind": "Transcription", **told}, "spec", {**told, "kind": kind}, says)
        for field, told, kind, says in (
            ("generation", generation(maxLength=448), "LLM", "generation belongs to kind LLM"),
            ("maxTokens", {"maxTokens": 448}, "Rerank", "maxTokens, tensors and cache belong to encoders"),
            ("tensors", {"tensors": {}}, "Rerank", "maxTokens, tensors and cache belong to encoders"),
            ("embedding", {"embedding": {}}, "Embedding", "embedding belongs to kind Embedding"),
            ("a chat template", template(inline="x"), "LLM", "contentFormat are not for kind Transcription"),
            (
                "a form of content",
                {"tokenizer": {"contentFormat": "openai"}},
                "Rerank",
                "contentFormat are not for kind Transcription",
            ),
            ("streamUsage", {"streamUsage": "always"}, "LLM", "streamUsage belongs to kind LLM"),
            ("the habits of denglin", {"compatProfile": "denglin"}, "LLM", "compatProfile vllm is for Transcription"),
            ("those of fastdeploy", {"compatProfile": "fastdeploy"}, "LLM", "compatProfile vllm is for Transcription"),
        )
    ),
    Case(
        3,
        "a language model with the habits of vLLM",
        {"compatProfile": "vllm"},
        "spec",
        {"kind": "Transcription", "compatProfile": "vllm"},
        "compatProfile vllm is for Transcription",
    ),
    Case(
        3,
        "a language model that hears",
        {"speech": {"translation": True}},
        "spec",
        {"kind": "Transcription", "speech": {"translation": True, "maxAudio": "30m"}},
        "speech belongs to kind Transcription",
    ),
    Case(
        1,
        "speech of others without gRPC",
        {"kind": "Transcription", **engine(external={"http": "triton:8000"})},
        "engine.external.grpc",
        {"kind": "Transcription", **engine(external={"grpc": "triton:8001", "http": "triton:8000"})},
        "kinds LLM and Transcription need engine.external.grpc",
    ),
    *(
        Case(
            3,
            f"{kind} that speaks {dialect}",
            {"kind": kind, **engine(external={**EXTERNAL, "dialect": dialect})},
            "spec",
            {"kind": "Transcription", **engine(external={**EXTERNAL, "dialect": "speech"})},
            "speech or whisper_bls for Transcription",
        )
        for kind, dialect in (
            ("Transcription", "tokens"),
            ("Transcription", "encoder"),
            ("LLM", "speech"),
            ("LLM", "whisper_bls"),
            ("Rerank", "whisper_bls"),
        )
    ),
    Case(
        3,
        "tokens of a window for an engine that says when a text is cut",
        {"kind": "Transcription", **engine(external={**EXTERNAL, "dialect": "speech", "windowTokens": 96})},
        "engine.external",
        {"kind": "Transcription", **engine(external={**EXTERNAL, "dialect": "whisper_bls", "windowTokens": 96})},
        "windowTokens belongs to the dialect whisper_bls",
    ),
    *(
        Case(
            2,
            f"{count} tokens of a window",
            {"kind": "Transcription", **engine(external={**EXTERNAL, "dialect": "whisper_bls", "windowTokens": count})},
            "engine.external.windowTokens",
            {"kind": "Transcription", **engine(external={**EXTERNAL, "dialect": "whisper_bls", "windowTokens": good})},
        )
        for count, good in ((39, 40), (449, 448))
    ),
)
