"""A grammar as a mask: where an answer may end, and how a request ends with it."""

import json

import numpy as np
import pytest
from tokenizers import Tokenizer

from conch_contracts.messages.generation import SamplingParameters
from conch_contracts.messages.grammar import Grammar, GrammarKind
from conch_contracts.messages.message import from_json, to_json
from conch_guidance.compiler import GrammarCompiler
from conch_runtime_cpu.masks.grammar_mask import GrammarMask
from testkit.models.golden import FOLDER

VOCABULARY = 2048
EOS = 2041
TOKENIZER_EOS = 2039


@pytest.fixture(scope="module")
def compiler() -> GrammarCompiler:
    return GrammarCompiler.of_folder(FOLDER, vocabulary=VOCABULARY, kept=4)


def mask_of(compiler: GrammarCompiler, regex: str, *endings: int) -> GrammarMask:
    matcher = compiler.matcher(Grammar(kind=GrammarKind.REGEX, definition=regex))
    return GrammarMask(matcher, endings=endings, silent=(EOS, TOKENIZER_EOS))


def allowed(mask: GrammarMask) -> set[int]:
    row = np.ones(VOCABULARY, np.bool_)
    mask.fill(row)
    return set(np.flatnonzero(row).tolist())


def ids(text: str) -> list[int]:
    return Tokenizer.from_file(str(FOLDER / "tokenizer.json")).encode(text).ids


def test_an_answer_may_end_only_where_the_grammar_is_satisfied(compiler: GrammarCompiler) -> None:
    mask = mask_of(compiler, "qz+", EOS)
    q, z = ids("q")[0], ids("z")[0]
    assert allowed(mask) == {q}
    mask.accept(q)
    assert (mask.complete, mask.finished) == (False, False)
    assert EOS not in allowed(mask)
    mask.accept(z)
    assert (mask.complete, mask.finished) == (True, False)
    assert {z, EOS} <= allowed(mask)
    assert TOKENIZER_EOS not in allowed(mask)


def test_ids_that_do_not_end_the_request_are_no_way_out(compiler: GrammarCompiler) -> None:
    mask = mask_of(compiler, "qz+")
    for token in ids("q") + ids("z"):
        mask.accept(token)
    assert not {EOS, TOKENIZER_EOS} & allowed(mask)


def test_an_answer_that_allows_nothing_more_is_finished_without_an_ending_id(compiler: GrammarCompiler) -> None:
    mask = mask_of(compiler, "qz", EOS)
    for token in ids("q") + ids("z"):
        assert not mask.finished
        mask.accept(token)
    assert mask.finished
    assert mask.fault == ""


def test_a_token_that_breaks_the_grammar_is_told_and_nothing_comes_after_it(compiler: GrammarCompiler) -> None:
    mask = mask_of(compiler, "qz", EOS)
    mask.accept(ids("z")[0])
    assert mask.fault
    assert (mask.complete, mask.finished) == (False, False)
    assert allowed(mask) == set()


def test_a_grammar_travels_in_the_parameters() -> None:
    grammar = Grammar(kind=GrammarKind.CHOICE, definition=json.dumps(["é", "b"]))
    sent = to_json(SamplingParameters(max_tokens=5, grammar=grammar))
    assert from_json(SamplingParameters, sent).grammar == grammar
