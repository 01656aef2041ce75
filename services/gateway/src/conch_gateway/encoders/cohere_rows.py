"""Pure: from a request of Cohere's kind to the rows that the tokenizer makes, and what the worker does with them."""

from conch_contracts.messages.encoding import PrepareRowsRequest, Task
from conch_contracts.openai.chat import ImagePart
from conch_contracts.openai.encoders.cohere import CohereEmbedRequest
from conch_contracts.records import Route
from conch_gateway.encoders import row_contents
from conch_gateway.encoders.request_rows import EncoderWork, check_dimensions
from conch_gateway.encoders.row_contents import Content
from conch_gateway.encoders.text_names import TextNames, text_field
from conch_gateway.errors.bad_request import conflicting, invalid, missing


def check_texts(request: CohereEmbedRequest) -> None:
    """Raise InvalidRequest unless there is exactly one of `texts` and `inputs`, of the type that was named."""
    if request.texts is None and request.inputs is None:
        raise missing("texts")
    if request.texts is not None and request.inputs is not None:
        raise conflicting("inputs", "does not go together with 'texts'; give only one")
    if request.input_type == "image" and request.inputs is None:
        raise conflicting("input_type", "is 'image': show pictures in 'inputs'")
    for index, item in enumerate(request.inputs or ()):
        if not any(isinstance(part, ImagePart) or part.text for part in item.content):
            raise invalid(f"inputs.{index}.content", "expected a text, found empty parts")


def contents(request: CohereEmbedRequest) -> tuple[Content, ...]:
    """Return the texts and pictures of a request, whichever form they have."""
    return tuple(request.texts or row_contents.several(request.inputs or (), "inputs"))


def texts(request: CohereEmbedRequest) -> tuple[str, ...]:
    """Return the texts of a request alone."""
    return tuple(content for content in contents(request) if isinstance(content, str))


def embed(request: CohereEmbedRequest, route: Route) -> EncoderWork:
    """Return the work of a request; raises InvalidRequest."""
    check_dimensions("output_dimension", request.output_dimension, route)
    limit = min(request.max_tokens or route.max_model_len, route.max_model_len)
    cut = request.truncate != "NONE"
    rows = PrepareRowsRequest(
        digest=route.tokenizer_digest,
        **row_contents.for_tokenizer(contents(request), route),
        truncate=limit if cut else None,
        truncation_side="left" if request.truncate == "START" else "right",
        longest=route.max_model_len,
    )
    name = "inputs" if request.texts is None else "texts"
    return EncoderWork(
        rows,
        TextNames(
            (text_field(name, getattr(request, name)),),
            cut="set 'truncate' to START or END",
            renamed={"dimensions": "output_dimension", "truncate_prompt_tokens": "max_tokens"},
        ),
        Task.EMBED,
        route.encoder.normalize,
        dimensions=request.output_dimension,
        types=tuple(dict.fromkeys(request.embedding_types or ("float",))),
        max_tokens=None if cut else request.max_tokens,
    )
