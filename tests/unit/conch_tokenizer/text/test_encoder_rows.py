import msgspec
import pytest

from conch_contracts.messages.encoding import PrepareRowsRequest
from conch_contracts.names import Digest
from conch_kit.errors import InvalidRequest
from conch_tokenizer.text.chat_template import ChatRenderer
from conch_tokenizer.text.encoder_rows import prepare_rows
from conch_tokenizer.text.limited_tokenizer import LimitedTokenizer
from conch_tokenizer.text.model_tokenizer import ModelTokenizer, load
from testkit.processes.conch_up import ROOT

CLS, SEP = 2, 3


@pytest.fixture(scope="module")
def model() -> ModelTokenizer:
    return load(ROOT / "examples" / "tiny-reranker")


@pytest.fixture
def tokenizer(model: ModelTokenizer) -> LimitedTokenizer:
    return LimitedTokenizer(model, ChatRenderer(model), 1000, lambda: None)


def ask(tokenizer: LimitedTokenizer, **fields: object) -> list[tuple[list[int], int | None]]:
    request = msgspec.convert(type=PrepareRowsRequest, obj={"digest": Digest("a" * 64), **fields})
    return [(list(row.ids), row.second) for row in prepare_rows(tokenizer, request).rows]


def test_texts_are_encoded_as_the_tokenizer_does_and_ids_pass(
    tokenizer: LimitedTokenizer, model: ModelTokenizer
) -> None:
    found = ask(tokenizer, texts=("oil is stored", (5, 6, 7), "the weather"))
    assert found == [
        (model.encode("oil is stored", add_special_tokens=True), None),
        ([5, 6, 7], None),
        (model.encode("the weather", add_special_tokens=True), None),
    ]
    assert ask(tokenizer, texts=("oil",), add_special_tokens=False) == [
        (model.encode("oil", add_special_tokens=False), None)
    ]


@pytest.mark.parametrize("texts", [("the oil",), ("the oil", "the oil")])
def test_a_pair_says_where_its_second_text_begins(
    tokenizer: LimitedTokenizer, model: ModelTokenizer, texts: tuple[str, ...]
) -> None:
    query = model.encode("the oil", add_special_tokens=False)
    for (ids, second), document in zip(ask(tokenizer, texts=texts, pairs=("a", "a b")), ("a", "a b"), strict=True):
        rest = model.encode(document, add_special_tokens=False)
        assert ids == [CLS, *query, SEP, *rest, SEP]
        assert second == len(query) + 2


def test_rows_are_cut_with_their_special_tokens_kept(tokenizer: LimitedTokenizer) -> None:
    (alone, ids, pair) = (
        *ask(tokenizer, texts=("a b c d e", (5, 6, 7, 8, 9, 10)), truncate=5),
        *ask(tokenizer, texts=("a b c",), pairs=("a b c d",), truncate=6),
    )
    assert (len(alone[0]), alone[0][0], alone[0][-1]) == (5, CLS, SEP)
    assert ids[0] == [5, 6, 7, 8, 9]
    assert (len(pair[0]), pair[0][-1]) == (6, SEP)


def test_a_document_can_be_cut_before_it_is_joined(tokenizer: LimitedTokenizer) -> None:
    ((whole, second),) = ask(tokenizer, texts=("a b c",), pairs=("a b c d e",), truncate_pairs=2)
    assert second is not None
    assert len(whole) - second == 3


@pytest.mark.parametrize(("longest", "firsts"), [(None, ()), (9, ()), (8, (5, 3))])
def test_the_first_texts_are_counted_where_a_pair_is_too_long(
    tokenizer: LimitedTokenizer, longest: int | None, firsts: tuple[int, ...]
) -> None:
    request = PrepareRowsRequest(digest=Digest("a" * 64), texts=("a b c", "a"), pairs=("a b c", "a b"), longest=longest)
    assert prepare_rows(tokenizer, request).firsts == firsts


@pytest.mark.parametrize(
    ("fields", "says", "param"),
    [
        ({}, "exactly one of chat and texts", None),
        ({"texts": ("a", "b"), "pairs": ("c",)}, "one text, or one for each", None),
        ({"texts": ("a", (1, 99999999))}, "expected token ids", "rows.1"),
        ({"texts": ("a " * 600,)}, "at most 1000 bytes", "rows"),
        ({"texts": ("a",), "pairs": ("a " * 600,)}, "at most 1000 bytes", "rows"),
        ({"texts": ("a " * 30,), "pairs": ("a",) * 20}, "at most 1000 bytes", "rows"),
        ({"texts": ("a b c",), "truncate": 1}, "room for the special tokens", "truncate_prompt_tokens"),
        ({"texts": ("a", ""), "add_special_tokens": False}, "at least one token", "rows.1"),
    ],
)
def test_what_cannot_be_rows_is_refused_by_its_row(
    tokenizer: LimitedTokenizer, fields: dict[str, object], says: str, param: str | None
) -> None:
    with pytest.raises(InvalidRequest, match=says) as refused:
        ask(tokenizer, **fields)
    assert refused.value.param == param


def test_a_text_without_tokens_is_an_invalid_value(tokenizer: LimitedTokenizer) -> None:
    with pytest.raises(InvalidRequest, match="at least one token") as refused:
        ask(tokenizer, texts=("",), add_special_tokens=False)
    assert (refused.value.param, refused.value.code) == ("rows.0", "invalid_value")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"texts": ("a", "a " * 400)}, "rows.1"),
        ({"texts": ("a",), "pairs": ("a", "a", "a " * 400)}, "rows.2"),
        ({"chat": {"messages": [{"role": "user", "content": "a " * 400}]}}, "messages"),
        ({"texts": ("a " * 400,), "truncate": 5}, None),
        ({"texts": ("a", "a b"), "truncate": None}, None),
    ],
)
def test_a_row_that_no_such_context_holds_is_refused_without_being_encoded(
    fields: dict[str, object], param: str | None
) -> None:
    chat_model = load(ROOT / "examples" / "tiny-chat")
    tokenizer = LimitedTokenizer(chat_model, ChatRenderer(chat_model), 1000, lambda: None)
    if param is None:
        assert ask(tokenizer, longest=5, **fields)
        return
    with pytest.raises(InvalidRequest, match="maximum context length is 5 tokens") as refused:
        ask(tokenizer, longest=5, **fields)
    assert (refused.value.param, refused.value.code) == (param, "context_length_exceeded")


def test_rows_that_were_cut_cut_nothing_that_comes_later(tokenizer: LimitedTokenizer, model: ModelTokenizer) -> None:
    text = "oil is stored in the house of the weather"
    whole = model.encode(text, add_special_tokens=True)
    assert len(whole) > 5
    ask(tokenizer, texts=(text,), truncate=5)
    assert model.encode(text, add_special_tokens=True) == whole


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("truncate", [None, 4, 7, 64])
@pytest.mark.parametrize("special", [False, True])
def test_rows_are_those_of_transformers(
    tokenizer: LimitedTokenizer, model: ModelTokenizer, paired: bool, truncate: int | None, special: bool
) -> None:
    texts = ["oil", "the weather [SEP] is fine", "\u00e9t\u00e9 \u4e2d\u6587 \U0001f600 x", "a b c d e f g h i j k"]
    pairs = [f"{text} in a house" for text in texts] if paired else None
    found = ask(tokenizer, texts=tuple(texts), pairs=tuple(pairs or ()), truncate=truncate, add_special_tokens=special)
    wanted = model.transformers(
        texts, pairs, add_special_tokens=special, truncation=truncate is not None, max_length=truncate
    )
    assert [ids for ids, _ in found] == wanted["input_ids"]
    if paired:
        assert [second for _, second in found] == [
            types.index(1) if 1 in types else None for types in wanted["token_type_ids"]
        ]


@pytest.mark.parametrize("keep", [3, 4])
def test_texts_and_ids_are_cut_on_the_side_that_is_asked_for(tokenizer: LimitedTokenizer, keep: int) -> None:
    def rows(side: str | None) -> list[list[int]]:
        asked = ask(tokenizer, texts=("the oil is stored", (5, 6, 7, 8, 9)), truncate=keep, truncation_side=side)
        return [ids for ids, _ in asked]

    whole = next(ids for ids, _ in ask(tokenizer, texts=("the oil is stored",)))[1:-1]
    inside = keep - 2
    assert rows("left") == [[CLS, *whole[-inside:], SEP], [5, 6, 7, 8, 9][-keep:]]
    assert rows("right") == [[CLS, *whole[:inside], SEP], [5, 6, 7, 8, 9][:keep]]
    assert rows(None) == rows("right")


def test_the_first_text_of_pairs_is_cut_at_so_many_tokens(tokenizer: LimitedTokenizer) -> None:
    asked = ask(tokenizer, texts=("the oil is stored",), pairs=("a b", "a"), truncate_firsts=2)
    assert asked == ask(tokenizer, texts=("the oil",), pairs=("a b", "a"))
