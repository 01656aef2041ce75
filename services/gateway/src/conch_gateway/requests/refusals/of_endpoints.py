"""Parameters that another endpoint of this API has: what each endpoint says to them where it has them not.

Chat and text completions know those of Responses, and encoders those of one another. A client that sends one has taken
one API for the other, and its answer would not be what the parameter asks for.
"""

from collections.abc import Mapping

from conch_contracts.openai.api_model import ApiModel
from conch_contracts.openai.chat import ChatCompletionRequest
from conch_contracts.openai.completions import CompletionRequest
from conch_contracts.openai.encoders.cohere import CohereEmbedRequest
from conch_contracts.openai.encoders.embeddings import EmbeddingRequest, PoolingRequest
from conch_contracts.openai.encoders.rerank import RerankRequest
from conch_contracts.openai.encoders.scores import ClassifyRequest, ScoreRequest
from conch_contracts.openai.tokenizing import TokenizeRequest
from conch_gateway.requests.refusals.parameter_refusal import ParameterRefusal

_CONVERSATIONS = "this endpoint takes none; conversations with one go to POST /v1/chat/completions"
_NO_VECTOR = "this endpoint's answer holds numbers, not vectors"
_TYPES = "use 'embedding_types'"
_DIMENSIONS = "use 'output_dimension'"
_OWN_SCALE = "a vector has the length that its model's deployment says"
_LIMIT = "use 'max_tokens' with 'truncate'"
_CUT = "use 'truncate_prompt_tokens', with -1 for the longest text that the model takes"
_PLAIN = {"encoding_format": ("float",), "embed_dtype": ("float32",), "endianness": ("native", "little")}

OF_RESPONSES: Mapping[str, ParameterRefusal] = {
    "background": ParameterRefusal("answers in the background are those of POST /v1/responses", (False,)),
    "include": ParameterRefusal("use 'logprobs'", ([],)),
    "input": ParameterRefusal("", ("", [])),
    "instructions": ParameterRefusal("", ("",)),
    "max_output_tokens": ParameterRefusal("use 'max_tokens'"),
    "max_tool_calls": ParameterRefusal("it bounds tools that a server runs, and there are none"),
    "previous_response_id": ParameterRefusal("send the whole conversation, or use POST /v1/responses", ("",)),
    "text": ParameterRefusal("use 'response_format'", ({}, {"format": {"type": "text"}})),
    "truncation": ParameterRefusal(_CUT, (False, "disabled")),
}
"""Parameters of Responses, as chat and text completions refuse them."""

_OF_VECTORS: Mapping[str, ParameterRefusal] = {
    **{name: ParameterRefusal(_NO_VECTOR, plain) for name, plain in _PLAIN.items()},
    "dimensions": ParameterRefusal(_NO_VECTOR),
    "embedding_types": ParameterRefusal(_NO_VECTOR, (["float"],)),
    "normalize": ParameterRefusal(_NO_VECTOR, (False,)),
}
"""How vectors look, as encoders refuse it that give none."""

_OF_ENCODERS: Mapping[str, ParameterRefusal] = {
    "activation": ParameterRefusal("use 'normalize'"),
    "add_special_tokens": ParameterRefusal("", (True,)),
    "embedding_types": ParameterRefusal("use 'encoding_format' and 'embed_dtype'", (["float"],)),
    "max_tokens": ParameterRefusal(_CUT),
    "return_documents": ParameterRefusal("", (False,)),
    "top_n": ParameterRefusal("", (0,)),
}

_OF_COHERE: Mapping[str, ParameterRefusal] = {
    **{name: ParameterRefusal(_TYPES, plain) for name, plain in _PLAIN.items()},
    "activation": ParameterRefusal(_OWN_SCALE),
    "add_special_tokens": ParameterRefusal("", (True,)),
    "dimensions": ParameterRefusal(_DIMENSIONS),
    "input": ParameterRefusal("use 'texts'", ("", [])),
    "max_tokens_per_doc": ParameterRefusal(_LIMIT, (0,)),
    "max_tokens_per_query": ParameterRefusal(_LIMIT, (0,)),
    "normalize": ParameterRefusal(_OWN_SCALE),
    "truncate_prompt_tokens": ParameterRefusal(_LIMIT),
    "truncation": ParameterRefusal(_LIMIT, (False,)),
    "truncation_side": ParameterRefusal("use 'truncate': START or END"),
    "use_activation": ParameterRefusal(_OWN_SCALE),
}

_OF_INPUT: Mapping[str, ParameterRefusal] = {
    "inputs": ParameterRefusal("use 'input'", ([],)),
    "texts": ParameterRefusal("use 'input'", ([],)),
}

OF_ENDPOINTS: Mapping[type[ApiModel], Mapping[str, ParameterRefusal]] = {
    ChatCompletionRequest: {
        **OF_RESPONSES,
        "input": ParameterRefusal("use 'messages'", ("", [])),
        "instructions": ParameterRefusal("use a message with the role 'system'", ("",)),
        "max_output_tokens": ParameterRefusal("use 'max_completion_tokens'"),
    },
    CompletionRequest: {
        **OF_RESPONSES,
        "chat_template": ParameterRefusal(_CONVERSATIONS),
        "chat_template_kwargs": ParameterRefusal(_CONVERSATIONS, ({},)),
        "input": ParameterRefusal("use 'prompt'", ("", [])),
        "instructions": ParameterRefusal("write them into the 'prompt'", ("",)),
    },
    TokenizeRequest: {
        "truncate_prompt_tokens": ParameterRefusal("cut the list of tokens yourself"),
        "truncation_side": ParameterRefusal("cut the list of tokens yourself"),
    },
    EmbeddingRequest: {**_OF_ENCODERS, **_OF_INPUT},
    CohereEmbedRequest: _OF_COHERE,
    PoolingRequest: {**_OF_ENCODERS, **_OF_INPUT},
    ClassifyRequest: {**_OF_ENCODERS, **_OF_INPUT, **_OF_VECTORS},
    ScoreRequest: {**_OF_ENCODERS, **_OF_VECTORS},
    RerankRequest: {
        **_OF_ENCODERS,
        **_OF_VECTORS,
        "items": ParameterRefusal("use 'documents'", ([],)),
        "queries": ParameterRefusal("use 'query'", ([],)),
        "texts": ParameterRefusal("use 'documents'", ([],)),
    },
}
"""What an endpoint says in words of its own, where its type has no such field."""
