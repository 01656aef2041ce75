"""Messages about texts and pictures that become vectors, scores and classes: gateway to tokenizer, and to embed-worker.

The gateway tokenizes first (`PrepareRowsRequest`), then asks a worker (`EncodeRequest`). A worker's answer to EMBED and
POOL is the end of the client's JSON body, ready-made, because writing a million numbers is the worker's work: `{"data":
[...]}`, or `{"embeddings": {...}}` with `types`. The gateway puts its own fields in front. For SCORE and SIMILARITY the
answer is `{"rows": [[...], ...]}`, unless it is `pooled`.
"""

from enum import StrEnum
from typing import Literal

import msgspec

from conch_contracts.messages.generation import PreparedPicture
from conch_contracts.messages.message import Message, MessageDigest, TokenId, TokenLimit
from conch_contracts.messages.tokenization import ChatInput, Picture, PictureLimits
from conch_contracts.names import EngineAddress
from conch_contracts.openai.encoders.vectors import NumberType, VectorType
from conch_contracts.records import Activation, Pooling


class RowPicture(Message, frozen=True, kw_only=True):
    """One picture, as large as its model sees it and not normalised yet."""

    pixels: bytes
    """RGB row by row, one byte a channel: `height * width * 3` of them."""
    height: int
    width: int
    scale: tuple[float, float, float]
    shift: tuple[float, float, float]
    """What the model was trained on are the bytes of each channel times its `scale` plus its `shift`."""
    length: int
    """How many positions the model makes of it, which count as its tokens."""


class Row(Message, frozen=True, kw_only=True):
    """One text or one pair of texts as ids, or one picture."""

    ids: tuple[TokenId, ...]
    """None of a picture that is a row."""
    second: int | None = None
    """Where the second text of a pair begins."""
    picture: RowPicture | None = None
    pictures: tuple[PreparedPicture, ...] = ()
    """Those that stand among the ids, as pixels."""

    @property
    def tokens(self) -> int:
        """How many tokens it counts as."""
        return len(self.ids) if self.picture is None else self.picture.length


class PrepareRowsRequest(Message, frozen=True, kw_only=True):
    """Turn texts and pictures into rows: exactly one of `chat` and `texts` is set.

    An error names the row `rows.<n>`, or `rows`; the gateway knows what the client calls them.
    """

    digest: MessageDigest
    texts: tuple[str | tuple[int, ...] | None, ...] = ()
    """Ids are taken as they are. None is a picture."""
    pictures: tuple[Picture, ...] = ()
    """One for each None of `texts`, in this order."""
    picture_limits: PictureLimits | None = None
    """None: the model sees no pictures, and there are none."""
    picture_scope: str = ""
    """As in `PrepareRequest`."""
    pairs: tuple[str, ...] = ()
    """With these each row is a pair, a text followed by one of these; a single text goes with each of them."""
    truncate_pairs: TokenLimit | None = None
    """Cut each of `pairs` at so many tokens first."""
    truncate_firsts: TokenLimit | None = None
    """Cut each of `texts` that has a partner in `pairs` at so many tokens first."""
    chat: ChatInput | None = None
    """Its pictures stand among the ids of its one row."""
    add_special_tokens: bool = True
    truncate: TokenLimit | None = None
    """Cut each row at so many tokens, special ones included, as the model's tokenizer does."""
    truncation_side: Literal["left", "right"] | None = None
    """Where rows are cut; where the model's tokenizer does it when absent."""
    longest: int | None = None
    """The model's longest input: a text that is not cut and longer for certain is refused without being encoded, and
    a longer pair tells how many of its tokens are the first text's."""

    @property
    def shown(self) -> tuple[Picture, ...]:
        """All pictures of the request."""
        return self.pictures if self.chat is None else self.chat.pictures


class PrepareRowsResponse(Message, frozen=True, kw_only=True):
    """The rows, in order."""

    rows: tuple[Row, ...]
    firsts: tuple[int, ...] = ()
    """Where a pair is longer than `longest`: the tokens of each of `texts` by itself."""


class Task(StrEnum):
    """What is made of the rows."""

    EMBED = "embed"
    """One vector for each."""
    POOL = "pool"
    """One vector for each token of each."""
    SCORE = "score"
    """The scores or probabilities of each."""
    SIMILARITY = "similarity"
    """The cosine between each of the first rows and its partner among the others."""


class EncoderTarget(Message, frozen=True, kw_only=True):
    """The engine that the gateway chose, and the tensors of its model."""

    address: EngineAddress
    named_in: str | None = None
    """The namespace of whoever named the address; None: Conch runs the engine."""
    model: str
    """The model's name inside Triton."""
    inputs: dict[str, str] = msgspec.field(default_factory=dict)
    output: str | None = None
    patience_s: float = 120.0
    """How long the engine may take for one batch: one that is dead in all but name stays silent."""


class EncodeRequest(Message, frozen=True, kw_only=True):
    """One client request, fully resolved."""

    request_id: str
    target: EncoderTarget
    task: Task
    rows: tuple[Row, ...]
    firsts: int = 0
    """For SIMILARITY: how many of the rows are first texts; one of them goes with each of the others."""
    pooling: Pooling = Pooling.MEAN
    normalize: bool = True
    activation: Activation = Activation.NONE
    dimensions: int | None = None
    """Keep so many of a vector's numbers."""
    base64: bool = False
    """Vectors as base64 of their packed numbers instead of lists."""
    dtype: NumberType = "float32"
    """What base64 packs."""
    big_endian: bool = False
    """Whether base64 has the highest byte of each number first."""
    shapes: bool = False
    """Whether each vector's shape stands beside it."""
    pooled: bool = False
    """Whether what EMBED and SCORE give is written as POOL writes it."""
    types: tuple[VectorType, ...] = ()
    """With EMBED: all vectors in each of these forms."""
    timeout_s: float = 600.0
    """What is left of the request's deadline, in seconds."""
