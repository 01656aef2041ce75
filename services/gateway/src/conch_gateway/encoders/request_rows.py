"""Pure: from a validated request to the rows that the tokenizer makes, and what the worker does with them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from conch_contracts.messages.encoding import PrepareRowsRequest, Task
from conch_contracts.messages.tokenization import ChatInput
from conch_contracts.openai.chat import ChatMessage
from conch_contracts.openai.encoders.embeddings import EmbeddingRequest, InputFields, PoolingRequest
from conch_contracts.openai.encoders.fields import Activated, EncoderFields, TextInput
from conch_contracts.openai.encoders.rerank import RerankRequest
from conch_contracts.openai.encoders.scores import SIDES, ClassifyRequest, ScoreRequest, Side
from conch_contracts.openai.encoders.vectors import NumberType, VectorType
from conch_contracts.records import Activation, ModelKind, Route
from conch_gateway.answers.reply import JSON
from conch_gateway.encoders import row_contents
from conch_gateway.encoders.row_contents import Content, PictureContent, field_of
from conch_gateway.encoders.text_names import TextField, TextNames, text_field
from conch_gateway.errors.bad_request import conflicting, invalid, missing, unsupported_by_model
from conch_gateway.requests import content_parts
from conch_gateway.requests.tokenizer_request import check_vocabulary, rendering
from conch_gateway.upstream.port import Header
from conch_kit.errors import InvalidRequest

MAX_DESCRIBED = 256
"""Vectors in a header: of 130 bytes each, where many a client takes 64 KiB."""


@dataclass(frozen=True, slots=True)
class Head:
    """What every answer begins with."""

    id: str
    created: int
    model: str
    tokens: int
    """Of all rows together."""


@dataclass(frozen=True, slots=True)
class EncodedBody:
    """The body of an answer, and the headers that tell what it is."""

    content: bytes
    headers: tuple[Header, ...] = (JSON,)


BodyMaker = Callable[[Head, bytes], EncodedBody]
"""From a worker's answer to the client's body."""


@dataclass(frozen=True, slots=True)
class EncoderWork:
    """What is to be done with a request's texts and pictures."""

    rows: PrepareRowsRequest
    names: TextNames
    task: Task
    normalize: bool = True
    activation: Activation = Activation.NONE
    dimensions: int | None = None
    base64: bool = False
    dtype: NumberType = "float32"
    big_endian: bool = False
    shapes: bool = False
    pooled: bool = False
    types: tuple[VectorType, ...] = ()
    firsts: int = 0
    max_tokens: int | None = None
    """A row with more tokens is refused."""


_PICTURED_TASKS = ("embed",)
"""Of a model of texts and pictures, which has no vectors of single tokens."""
POOLING_TASKS: Mapping[ModelKind, tuple[str, ...]] = {
    ModelKind.EMBEDDING: ("token_embed", "embed"),
    ModelKind.CLASSIFY: ("classify", "token_classify"),
}
"""What `task` may be of models of each kind; the first where the request does not say."""


def embeddings(request: EmbeddingRequest, route: Route) -> EncoderWork:
    """Return the work of an embedding request; raises InvalidRequest."""
    asked = _either("normalize", request.normalize, request.use_activation)
    return _vectors(request, route, Task.EMBED, normalize=route.encoder.normalize if asked is None else asked)


def pooling(request: PoolingRequest, route: Route) -> EncoderWork:
    """Return the work of a pooling request; raises InvalidRequest."""
    pictured = row_contents.are_pictures(route)
    tasks = _PICTURED_TASKS if pictured else POOLING_TASKS[route.kind]
    task = request.task or tasks[0]
    if task not in tasks:
        what = "a model of texts and pictures" if pictured else f"a model of kind {route.kind}"
        raise unsupported_by_model("task", f"{what} takes {' or '.join(tasks)}")
    if route.kind is ModelKind.CLASSIFY:
        return _pooled_classes(request, route, Task.POOL if task == "token_classify" else Task.SCORE)
    name = "activation" if request.use_activation is None else "use_activation"
    asked = _either("normalize", request.normalize, _switch(request), renamed=name)
    if task == "embed":
        normalize = route.encoder.normalize if asked is None else asked
        return _vectors(request, route, Task.EMBED, normalize=normalize, pooled=True)
    return _vectors(request, route, Task.POOL, normalize=asked is True, pooled=True)


def _pooled_classes(request: PoolingRequest, route: Route, task: Task) -> EncoderWork:
    if request.normalize is not None:
        raise unsupported_by_model("normalize", "a classifier's numbers are no vector; use 'use_activation'")
    return _vectors(request, route, task, normalize=False, pooled=True, activation=_activation(request, route))


def rerank(request: RerankRequest, route: Route) -> EncoderWork:
    """Return the work of a rerank request: a reranker reads pairs, an embedding model texts to be compared."""
    if route.kind is ModelKind.EMBEDDING:
        return _compared(request, route)
    query = (row_contents.one(request.query, "query"),)
    rows = PrepareRowsRequest(
        digest=route.tokenizer_digest,
        **row_contents.for_tokenizer(query, route),
        pairs=_texts_alone(documents(request), route),
        truncate_pairs=request.max_tokens_per_doc or None,
        truncate_firsts=request.max_tokens_per_query or None,
        truncate=_cut_of_pairs(request, route),
        truncation_side=request.truncation_side,
        longest=route.max_model_len,
    )
    names = TextNames((field_of(request.documents, "documents"),), first=text_field("query", request.query))
    return EncoderWork(rows, names, Task.SCORE, activation=_activation(request, route))


def _compared(request: RerankRequest, route: Route) -> EncoderWork:
    for name in ("max_tokens_per_query", "max_tokens_per_doc"):
        if getattr(request, name):
            raise unsupported_by_model(name, "an embedding model reads each text alone; use 'truncate_prompt_tokens'")
    rows = PrepareRowsRequest(
        digest=route.tokenizer_digest,
        **row_contents.for_tokenizer((row_contents.one(request.query, "query"), *documents(request)), route),
        truncate=_cut_of_pairs(request, route),
        truncation_side=request.truncation_side,
        longest=route.max_model_len,
    )
    names = TextNames((text_field("query", request.query), field_of(request.documents, "documents")))
    return EncoderWork(rows, names, Task.SIMILARITY, firsts=1)


def score(request: ScoreRequest, route: Route) -> EncoderWork:
    """Return the work of a score request: a reranker reads pairs, an embedding model texts to be compared."""
    (first, first_given), (second, second_given) = sides(request)
    firsts, seconds = row_contents.several(first_given, first), row_contents.several(second_given, second)
    if len(firsts) not in (1, len(seconds)):
        raise InvalidRequest(
            f"Expected one text in '{first}', or as many as in '{second}' ({len(seconds)}), found {len(firsts)}.",
            param=first,
            code="invalid_value",
        )
    rows = _rows(request, route)
    if route.kind is ModelKind.RERANK:
        names = TextNames((field_of(second_given, second),), first=field_of(first_given, first))
        made = rows(**row_contents.for_tokenizer(firsts, route), pairs=_texts_alone(seconds, route))
        return EncoderWork(made, names, Task.SCORE, activation=_activation(request, route))
    names = TextNames((field_of(first_given, first), field_of(second_given, second)))
    made = rows(**row_contents.for_tokenizer((*firsts, *seconds), route))
    return EncoderWork(made, names, Task.SIMILARITY, firsts=len(firsts))


def sides(request: ScoreRequest) -> tuple[tuple[str, Side], tuple[str, Side]]:
    """Return both sides of the pairs, each with the name that the request gives it; raises InvalidRequest."""
    given = request.given
    for first, second in SIDES:
        if given.keys() == {first, second}:
            return (first, given[first]), (second, given[second])
    name, *others = given or ("text_1",)
    if not others:
        pair = next(pair for pair in SIDES if name in pair)
        raise missing(next(side for side in pair if side not in given))
    pairs = " or ".join(f"'{first}' and '{second}'" for first, second in SIDES)
    raise conflicting(others[-1], f"does not go together with '{name}': expected {pairs}")


def classify(request: ClassifyRequest, route: Route) -> EncoderWork:
    """Return the work of a classification request; raises InvalidRequest."""
    rows, names = _inputs(request, route)
    return EncoderWork(rows, names, Task.SCORE, activation=_activation(request, route))


def documents(request: RerankRequest) -> tuple[Content, ...]:
    """Return a request's documents."""
    return row_contents.several(request.documents, "documents")


def _texts_alone(contents: Sequence[Content], route: Route) -> tuple[str, ...]:
    """Return the second texts of pairs; raises InvalidRequest for a picture, of which no pair is made."""
    for content in contents:
        if isinstance(content, PictureContent):
            row_contents.picture_of(content, route)
    return tuple(content for content in contents if isinstance(content, str))


def chat_input(request: TextInput, messages: Sequence[ChatMessage], route: Route) -> ChatInput:
    """Return a request's conversation for the tokenizer to render."""
    goes_on = bool(request.continue_final_message)
    render = rendering(messages, route)
    return render(
        add_generation_prompt=bool(request.add_generation_prompt),
        continue_final_message=goes_on,
        without_template="send texts as 'input', without messages",
    )


def check_dimensions(name: str, asked: int | None, route: Route) -> None:
    """Raise InvalidRequest where a model's embeddings cannot be shortened."""
    if asked is not None and not route.encoder.matryoshka:
        raise InvalidRequest(
            f"This model does not support '{name}': it was not trained for shorter embeddings.",
            param=name,
            code="unsupported_parameter",
        )


def _vectors(
    request: InputFields,
    route: Route,
    task: Task,
    *,
    normalize: bool,
    pooled: bool = False,
    activation: Activation = Activation.NONE,
) -> EncoderWork:
    check_dimensions("dimensions", request.dimensions, route)
    binary = is_binary(request)
    packed = binary or request.encoding_format == "base64"
    for name, plain_values in (("embed_dtype", (None, "float32")), ("endianness", (None, "native", "little"))):
        if not packed and getattr(request, name) not in plain_values:
            raise conflicting(name, "needs 'encoding_format': 'base64', 'bytes' or 'bytes_only'")
    rows, names = _inputs(request, route)
    if request.encoding_format == "bytes" and len(rows.texts) > MAX_DESCRIBED:
        raise conflicting(
            "encoding_format",
            f"'bytes' describes at most {MAX_DESCRIBED} vectors in a header, found {len(rows.texts)}; use 'bytes_only'",
        )
    return EncoderWork(
        rows,
        names,
        task,
        normalize,
        activation=activation,
        dimensions=request.dimensions,
        base64=packed,
        dtype=request.embed_dtype or "float32",
        big_endian=request.endianness == "big",
        shapes=binary,
        pooled=pooled,
    )


def is_binary(request: InputFields) -> bool:
    """Return whether the answer's body is to be the vectors' bytes."""
    return request.encoding_format in ("bytes", "bytes_only")


def _inputs(request: TextInput, route: Route) -> tuple[PrepareRowsRequest, TextNames]:
    rows = _rows(request, route)
    if request.messages is not None and row_contents.are_pictures(route) and route.chat_template is None:
        return _seen(request, request.messages, route)
    if request.messages is not None:
        chat = chat_input(request, request.messages, route)
        sight = {} if route.pictures is None else {"picture_limits": content_parts.limits(route.pictures)}
        special = bool(request.add_special_tokens)
        return rows(chat=chat, add_special_tokens=special, **sight), TextNames((TextField("messages"),))
    texts = _texts(request)
    single = isinstance(request.input, list) and isinstance(request.input[0], int)
    names = TextNames((TextField("input") if single else text_field("input", request.input),))
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            check_vocabulary(text, route, param=names.of_row(index))
    return rows(texts=texts, add_special_tokens=request.add_special_tokens is not False), names


def _seen(request: TextInput, messages: Sequence[ChatMessage], route: Route) -> tuple[PrepareRowsRequest, TextNames]:
    """Return what a model of texts and pictures gets of a conversation, for which it has no template."""
    for name in ("add_generation_prompt", "continue_final_message"):
        if getattr(request, name):
            raise unsupported_by_model(name, "the model has no chat template")
    fields = row_contents.for_tokenizer((row_contents.of_messages(messages),), route)
    special = request.add_special_tokens is not False  # without its end the model knows no text
    return _rows(request, route)(**fields, add_special_tokens=special), TextNames((TextField("messages"),))


def _texts(request: TextInput) -> tuple[str | tuple[int, ...], ...]:
    """Return the texts of a request, whichever of its four forms it has."""
    given = request.input
    if given is None or isinstance(given, str):
        return () if given is None else (given,)
    ids = tuple(item for item in given if isinstance(item, int))
    if ids:
        return (ids,)
    return tuple(item if isinstance(item, str) else tuple(item) for item in given if not isinstance(item, int))


def _rows(request: EncoderFields, route: Route) -> partial[PrepareRowsRequest]:
    """Return what asks for rows of this model, once it has the texts."""
    return partial(
        PrepareRowsRequest,
        digest=route.tokenizer_digest,
        truncate=_cut(request, route),
        truncation_side=request.truncation_side,
        longest=route.max_model_len,
    )


def _cut(request: EncoderFields, route: Route) -> int | None:
    """Return at how many tokens a row is cut; None where a longer one is refused."""
    asked = request.truncate_prompt_tokens
    if asked is None:
        return route.max_model_len if route.encoder.truncate else None
    if asked > route.max_model_len:
        raise invalid(
            "truncate_prompt_tokens",
            f"{asked} is greater than the model's maximum of {route.max_model_len}. "
            "Please request a smaller truncation size, or -1 for the longest",
        )
    return route.max_model_len if asked == -1 else asked


def _cut_of_pairs(request: RerankRequest, route: Route) -> int | None:
    if request.truncation is False:
        if request.truncate_prompt_tokens is not None:
            raise conflicting("truncation", "cannot be false together with 'truncate_prompt_tokens'")
        return None
    cut = _cut(request, route)
    wanted = request.truncation or request.max_tokens_per_doc or request.max_tokens_per_query
    return route.max_model_len if cut is None and wanted else cut


def _activation(request: Activated | PoolingRequest, route: Route) -> Activation:
    return Activation.NONE if _switch(request) is False else route.encoder.activation


def _switch(request: Activated | PoolingRequest) -> bool | None:
    return _either("activation", request.activation, request.use_activation)


def _either(name: str, asked: bool | None, other: bool | None, *, renamed: str = "use_activation") -> bool | None:
    """Return what a switch says that has two names; raises InvalidRequest when they contradict each other."""
    if None not in (asked, other) and asked != other:
        raise conflicting(renamed, f"is the same as '{name}'; give only one")
    return other if asked is None else asked
