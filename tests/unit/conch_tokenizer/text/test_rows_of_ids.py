"""Rows that come as ids alone: nothing is encoded for them, and they are cut all the same."""

import pytest

from conch_contracts.messages.encoding import PrepareRowsRequest
from conch_contracts.names import Digest
from conch_tokenizer.text.chat_template import ChatRenderer
from conch_tokenizer.text.encoder_rows import prepare_rows
from conch_tokenizer.text.limited_tokenizer import LimitedTokenizer
from conch_tokenizer.text.model_tokenizer import load
from testkit.processes.conch_up import ROOT


@pytest.mark.parametrize(("truncate", "found"), [(None, [(5, 6, 7), (8,)]), (2, [(5, 6), (8,)])])
def test_ids_are_cut_without_a_text_beside_them(truncate: int | None, found: list[tuple[int, ...]]) -> None:
    model = load(ROOT / "examples" / "tiny-reranker")
    tokenizer = LimitedTokenizer(model, ChatRenderer(model), 1000, lambda: None)
    request = PrepareRowsRequest(digest=Digest("a" * 64), texts=((5, 6, 7), (8,)), truncate=truncate)
    assert [row.ids for row in prepare_rows(tokenizer, request).rows] == found
