"""Parameters of encoders that this API does not have, or has at another endpoint only.

They are text-embeddings-inference's, Jina's, Voyage's, Cohere's, vLLM's and FastDeploy's.
"""

from collections.abc import Mapping

from conch_gateway.requests.refusals.parameter_refusal import ParameterRefusal

_IN_THE_TEXT = "write what the model wants to be told into the texts themselves"
_IN_PARTS = "show pictures as parts of the type 'image_url', in 'messages', 'inputs' or 'content'"
_CUT = "use 'truncate_prompt_tokens', with -1 for the longest text that the model takes"

OF_ENCODERS: Mapping[str, ParameterRefusal] = {
    "embed_override_token_id": ParameterRefusal(),
    "embed_overrides": ParameterRefusal("", ([],)),
    "embedding_type": ParameterRefusal("use 'encoding_format' and 'embed_dtype'", ("float",)),
    "images": ParameterRefusal(_IN_PARTS, ([],)),
    "input_type": ParameterRefusal(_IN_THE_TEXT),
    "instruct": ParameterRefusal(_IN_THE_TEXT, ("",)),
    "instruction": ParameterRefusal("", ("",)),
    "late_chunking": ParameterRefusal("", (False,)),
    "late_chunking_params": ParameterRefusal(),
    "max_chunks_per_doc": ParameterRefusal("no document is cut into chunks; 'max_tokens_per_doc' limits its length"),
    "max_tokens_per_doc": ParameterRefusal("", (0,)),
    "max_tokens_per_query": ParameterRefusal("", (0,)),
    "media_io_kwargs": ParameterRefusal("", ({},)),
    "normalized": ParameterRefusal("use 'normalize'"),
    "output_dimension": ParameterRefusal("use 'dimensions'"),
    "output_dtype": ParameterRefusal("use 'embed_dtype'", ("float",)),
    "overlap_tokens": ParameterRefusal("no document is cut into chunks; 'max_tokens_per_doc' limits its length", (0,)),
    "padding": ParameterRefusal("", ("do_not_pad",)),
    "prompt_name": ParameterRefusal(_IN_THE_TEXT),
    "rank_fields": ParameterRefusal("write the fields that count into each document's text", ([],)),
    "raw_scores": ParameterRefusal("use 'activation': false", (False,)),
    "return_multivector": ParameterRefusal("use POST /pooling", (False,)),
    "return_text": ParameterRefusal("use 'return_documents'", (False,)),
    "return_token_ids": ParameterRefusal("use POST /tokenize", (False,)),
    "score_template": ParameterRefusal(_IN_THE_TEXT),
    "softmax": ParameterRefusal(),
    "task": ParameterRefusal(_IN_THE_TEXT),
    "top_k": ParameterRefusal("use 'top_n'"),
    "truncate": ParameterRefusal(_CUT, (False, "NONE")),
    "truncation": ParameterRefusal(_CUT, (False, "disabled")),
    "truncation_direction": ParameterRefusal("use 'truncation_side'"),
}
