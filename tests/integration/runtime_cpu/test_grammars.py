"""Answers that must match a grammar, through the real server, alone and beside others."""

import asyncio
import json
import re

import jsonschema
import msgspec
import pytest
from tokenizers import Tokenizer

from conch_contracts.messages.grammar import Grammar, GrammarKind
from conch_kit.triton.errors import EngineRejected
from testkit.engines.tokens_client import Answer, TokensEngine
from testkit.models.golden import FOLDER, Golden

pytestmark = pytest.mark.asyncio(loop_scope="session")

EOS = (2041, 2039)
SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 12},
        "kind": {"enum": ["big", "small"]},
        "likes": {"type": "array", "items": {"type": "boolean"}, "maxItems": 3},
    },
    "required": ["city", "kind", "likes"],
    "additionalProperties": False,
}
REGEX = r"[A-Z][a-z]{2,5} \d{3}-\d{4}"
LARK = """
start: greeting " " NAME ("!" | "?")
greeting: "hello" | "good " ("morning" | "night")
NAME: /[A-Z][a-z]{1,8}/
"""


Form = dict[str, object]


def grammar(kind: GrammarKind, definition: object) -> Form:
    text = definition if isinstance(definition, str) else json.dumps(definition)
    return msgspec.structs.asdict(Grammar(kind=kind, definition=text))


def text_of(answer: Answer) -> str:
    text: str = Tokenizer.from_file(str(FOLDER / "tokenizer.json")).decode(answer.tokens)
    return text


def is_valid_json(text: str) -> bool:
    jsonschema.validate(json.loads(text), SCHEMA)
    return True


WORDS = ["positive", "negative", "é😀"]
KINDS = [
    (grammar(GrammarKind.JSON_SCHEMA, SCHEMA), is_valid_json),
    (grammar(GrammarKind.REGEX, REGEX), lambda text: re.fullmatch(REGEX, text)),
    (
        grammar(GrammarKind.CHOICE, ["positive", "negative", "é😀"]),
        lambda text: text in ("positive", "negative", "é😀"),
    ),
    (
        grammar(GrammarKind.GRAMMAR, LARK),
        lambda text: re.fullmatch("(hello|good morning|good night) [A-Z][a-z]{1,8}[!?]", text),
    ),
]


@pytest.mark.parametrize("temperature", [0.0, 1.5])
@pytest.mark.parametrize(("form", "matches"), KINDS, ids=[form["kind"] for form, _ in KINDS])
async def test_every_answer_matches_its_grammar(
    tiny: TokensEngine, golden: Golden, form: Form, matches: object, temperature: float
) -> None:
    asked = {"grammar": form, "temperature": temperature, "eos_token_ids": EOS, "max_tokens": 200}
    answers = await asyncio.gather(
        *(tiny.generate(item.prompt_ids, seed=index, **asked) for index, item in enumerate(golden.items[:8]))
    )
    assert [answer.finish_reason for answer in answers] == ["stop"] * 8
    assert [text_of(answer) for answer in answers if not matches(text_of(answer))] == []


async def test_requests_with_and_without_a_grammar_run_together(tiny: TokensEngine, golden: Golden) -> None:
    plain = [tiny.generate(item.prompt_ids, eos_token_ids=EOS) for item in golden.items[:6]]
    forms = [tiny.generate(golden.items[0].prompt_ids, grammar=form, eos_token_ids=EOS) for form, _ in KINDS]
    answers = await asyncio.gather(*plain, *forms)
    assert [answer.tokens for answer in answers[:6]] == [item.output_ids for item in golden.items[:6]]
    assert all(matches(text_of(answer)) for answer, (_, matches) in zip(answers[6:], KINDS, strict=True))


async def test_an_answer_that_is_cut_off_says_so(tiny: TokensEngine, golden: Golden) -> None:
    form = grammar(GrammarKind.JSON_SCHEMA, SCHEMA)
    answer = await tiny.generate(golden.items[0].prompt_ids, grammar=form, eos_token_ids=EOS, max_tokens=3)
    assert (answer.finish_reason, len(answer.tokens)) == ("length", 3)


async def test_a_complete_answer_ends_even_where_nothing_else_would_end_it(tiny: TokensEngine, golden: Golden) -> None:
    form = grammar(GrammarKind.CHOICE, ["yes", "no"])
    answer = await tiny.generate(golden.items[0].prompt_ids, grammar=form, ignore_eos=True, min_tokens=50)
    assert text_of(answer) in ("yes", "no")
    assert (answer.finish_reason, answer.stop_token) == ("stop", -1)


async def test_bias_and_bad_words_choose_among_what_the_grammar_allows(tiny: TokensEngine, golden: Golden) -> None:
    prompt, form = golden.items[0].prompt_ids, grammar(GrammarKind.CHOICE, ["yes", "no"])
    first = {text: Tokenizer.from_file(str(FOLDER / "tokenizer.json")).encode(text).ids[0] for text in ("yes", "no")}
    usual = text_of(await tiny.generate(prompt, grammar=form, eos_token_ids=EOS))
    other = "no" if usual == "yes" else "yes"
    biased = await tiny.generate(prompt, grammar=form, eos_token_ids=EOS, logit_bias={first[other]: 100.0})
    assert text_of(biased) == other
    outside = await tiny.generate(prompt, grammar=form, eos_token_ids=EOS, logit_bias={77: 100.0})
    assert text_of(outside) == usual


async def test_a_grammar_that_leaves_no_token_fails_its_request_alone(tiny: TokensEngine, golden: Golden) -> None:
    prompt, form = golden.items[0].prompt_ids, grammar(GrammarKind.REGEX, "q")
    (q,) = Tokenizer.from_file(str(FOLDER / "tokenizer.json")).encode("q").ids
    refused, plain = await asyncio.gather(
        tiny.generate(prompt, grammar=form, bad_words=((q,),)),
        tiny.generate(prompt, eos_token_ids=EOS),
        return_exceptions=True,
    )
    assert isinstance(refused, EngineRejected)
    assert refused.message == "INVALID: grammar: the other parameters allow no token that the grammar allows"
    assert plain.tokens == golden.items[0].output_ids


@pytest.mark.parametrize(
    "form",
    [
        grammar(GrammarKind.REGEX, "["),
        grammar(GrammarKind.JSON_SCHEMA, {"$ref": "file:///etc/passwd"}),
        grammar(GrammarKind.GRAMMAR, "start: missing"),
        grammar(GrammarKind.CHOICE, "[]"),
    ],
    ids=lambda form: form["kind"],
)
async def test_a_grammar_that_cannot_be_compiled_is_refused(tiny: TokensEngine, golden: Golden, form: Form) -> None:
    with pytest.raises(EngineRejected) as refused:
        await tiny.generate(golden.items[0].prompt_ids, grammar=form)
    assert refused.value.message.startswith("INVALID: grammar: ")
