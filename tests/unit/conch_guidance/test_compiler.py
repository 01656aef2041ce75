"""What a compiled grammar lets through, on the real tokenizer of tiny-chat."""

import json

import pytest
from llguidance import LLMatcher
from tokenizers import Tokenizer

from conch_contracts.messages.grammar import Grammar, GrammarKind
from conch_guidance.compiler import GrammarCompiler
from conch_guidance.errors import UnusableGrammar
from testkit.models.golden import FOLDER

JSON_SCHEMA, REGEX, CHOICE = GrammarKind.JSON_SCHEMA, GrammarKind.REGEX, GrammarKind.CHOICE
JSON_OBJECT, GRAMMAR, TAGS = GrammarKind.JSON_OBJECT, GrammarKind.GRAMMAR, GrammarKind.STRUCTURAL_TAG

PLAIN_TAGS = {
    "type": "structural_tag",
    "structures": [{"begin": "<f=a>", "schema": {"type": "object"}, "end": "</f>"}],
    "triggers": ["<f="],
}
TOKEN_TAGS = {
    "type": "structural_tag",
    "structures": [{"begin": "<tool_call>\n", "schema": {"type": "object"}, "end": "\n</tool_call>"}],
    "triggers": ["<tool_call>"],
}
NODE = {
    "type": "object",
    "properties": {"v": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
    "required": ["v", "next"],
    "additionalProperties": False,
}
LIST = {"$ref": "#/$defs/node", "$defs": {"node": NODE}}
PAIR = {
    "type": "object",
    "properties": {"a": {"enum": ["x", "y"]}, "b": {"type": "array", "items": {"type": "boolean"}}},
    "required": ["a", "b"],
}


def tags(content: dict[str, object]) -> dict[str, object]:
    return {"type": "structural_tag", "format": content}


ANSWER = tags(
    {
        "type": "sequence",
        "elements": [
            {"type": "tag", "begin": "<a>", "content": {"type": "any_text"}, "end": "</a>"},
            {
                "type": "or",
                "elements": [{"type": "const_string", "value": "yes"}, {"type": "regex", "pattern": "[0-9]{2}"}],
            },
        ],
    }
)
NUMBERED = {"begin": "<n>", "content": {"type": "json_schema", "json_schema": {"type": "integer"}}, "end": "</n>"}
SEPARATED = tags({"type": "tags_with_separator", "separator": ",", "at_least_one": True, "tags": [NUMBERED]})
ONCE = tags({"type": "triggered_tags", "triggers": ["<n>"], "tags": [NUMBERED], "stop_after_first": True})
THOUGHT = tags({"type": "tag", "begin": "<think>", "content": {"type": "any_text"}, "end": "</think>"})
THOUGHTS_END = {"type": "tag", "begin": "", "content": {"type": "any_text"}, "end": "</think>"}
BEHIND = tags({"type": "sequence", "elements": [THOUGHTS_END, {"type": "json_schema", "json_schema": PAIR}]})


@pytest.fixture(scope="module")
def compiler() -> GrammarCompiler:
    return GrammarCompiler.of_folder(FOLDER, vocabulary=2048, kept=4)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(FOLDER / "tokenizer.json"))


def grammar(kind: GrammarKind, definition: object, whitespace: str | None = None) -> Grammar:
    text = definition if isinstance(definition, str) else json.dumps(definition)
    return Grammar(kind=kind, definition=text, whitespace=whitespace)


@pytest.mark.parametrize(
    ("kind", "definition", "good", "bad"),
    [
        (JSON_OBJECT, "", ['{"a": [1, {}]}', "{}"], ["[]", '{"a"']),
        (JSON_SCHEMA, PAIR, ['{"a":"x","b":[]}', '{"a": "y", "b": [true, false]}'], ['{"a":"z","b":[]}', '{"a":"x"}']),
        (JSON_SCHEMA, PAIR, ['{\n  "a": "x",\n  "b": [\n    true\n  ]\n}'], ['{  "a":"x","b":[]}', ' {"a":"x"}']),
        (JSON_SCHEMA, LIST, ['{"v":1,"next":{"v":2,"next":null}}'], ['{"v":1,"next":{}}', '{"v":1}']),
        (REGEX, r"[a-z]{3}/\d", ["abc/1"], ["abc", "xabc/1", "abc/12"]),
        (REGEX, r"^(ab|cd)$", ["ab", "cd"], ["^ab$", "abcd"]),
        (CHOICE, ["yes", "no"], ["yes", "no"], ["ye", "yesno", "maybe"]),
        (CHOICE, ['a"b', "back\\slash", "é😀", "a/b", "a\nb"], ['a"b', "back\\slash", "é😀", "a/b", "a\nb"], ["a"]),
        (JSON_SCHEMA, {"type": "integer", "minimum": 0, "maximum": 2**64 - 1}, ["0", str(2**63 - 1)], ["-1", "9" * 20]),
        (GRAMMAR, 'start: "a" tail\ntail: "x" | "y" tail', ["ax", "ayyx"], ["a", "axx"]),
        (GRAMMAR, 'start: list\nlist: "x" | list ",x"', ["x", "x,x,x"], ["x,", ",x"]),
        (GRAMMAR, 'root ::= "a" tail\ntail ::= "x" | "y" tail', ["ax", "ayyx"], ["a", "axx"]),
        (TAGS, PLAIN_TAGS, ["hi", "hi <f=a>{}</f> bye", "<f=a>{}</f><f=a>{}</f>"], ["hi <f=b>{}</f>", "hi <f=a>{"]),
        (TAGS, TOKEN_TAGS, ["hi", 'hi<tool_call>\n{"a":1}\n</tool_call>'], ["hi<tool_call>\n[]\n</tool_call>"]),
        (TAGS, ANSWER, ["<a>foo</a>yes", "<a></a>12"], ["<a>foo</a>no", "yes"]),
        (TAGS, SEPARATED, ["<n>1</n>", "<n>1</n>,<n>23</n>"], ["", "<n>1</n><n>2</n>", "x<n>1</n>"]),
        (TAGS, ONCE, ["hi", "hi <n>1</n>"], ["hi <n>1</n> bye"]),
        (TAGS, THOUGHT, ["<think>so so</think>"], ["so", "<think>so"]),
        (TAGS, BEHIND, ['so</think>{"a":"x","b":[]}', '</think>{"a":"x","b":[]}'],
         ['so</think>Sure: {"a":"x","b":[]}', '{"a":"x","b":[]}', 'a</think>b</think>{"a":"x","b":[]}']),
    ],
)  # fmt: skip
def test_only_answers_of_the_right_form_are_complete(
    compiler: GrammarCompiler,
    tokenizer: Tokenizer,
    kind: GrammarKind,
    definition: object,
    good: list[str],
    bad: list[str],
) -> None:
    def accepts(text: str) -> bool:
        matcher = compiler.matcher(grammar(kind, definition))
        return all(map(matcher.consume_token, tokenizer.encode(text).ids)) and matcher.is_accepting()

    assert [text for text in good if not accepts(text)] == []
    assert [text for text in bad if accepts(text)] == []


def test_white_space_is_what_the_client_says(compiler: GrammarCompiler, tokenizer: Tokenizer) -> None:
    def accepts(text: str, whitespace: str) -> bool:
        matcher = compiler.matcher(grammar(JSON_SCHEMA, PAIR, whitespace))
        return matcher.consume_tokens(tokenizer.encode(text).ids) and matcher.is_accepting()

    assert accepts('{   "a":"x","b":[]}', " {3}")
    assert not accepts('{ "a":"x","b":[]}', " {3}")


@pytest.mark.parametrize(
    ("kind", "definition", "reason"),
    [
        (JSON_SCHEMA, "{", "not JSON"),
        (JSON_SCHEMA, [1], "must be an object"),
        (JSON_SCHEMA, {"$ref": "http://169.254.169.254/latest"}, "\\$ref must stay within the schema"),
        (JSON_SCHEMA, {"properties": {"a": {"$ref": "file:///etc/passwd"}}}, "\\$ref must stay within the schema"),
        (JSON_SCHEMA, {"$id": "http://a/b", "$dynamicRef": "c.json"}, "\\$dynamicRef must stay within the schema"),
        (JSON_SCHEMA, {"$ref": "#/$defs/none"}, "does not exist"),
        (JSON_SCHEMA, {"$ref": "#"}, "required inside of itself"),
        (TAGS, tags({**NUMBERED, "type": "tag", "content": {"type": "json_schema", "json_schema": {"$ref": "#"}}}),
         "required inside of itself"),
        (JSON_SCHEMA, {"type": "strin"}, "Invalid type"),
        (JSON_SCHEMA, {"not": {"type": "string"}}, "Unimplemented keys"),
        (JSON_SCHEMA, {"type": "string", "minLength": 5, "maxLength": 2}, "Unsatisfiable"),
        (JSON_SCHEMA, {"type": "array", "minItems": 10**9}, "minItems must be at most"),
        (JSON_SCHEMA, {"type": "integer", "minimum": 1e20}, "minimum must be between"),
        (JSON_SCHEMA, {"properties": {"id": {"enum": [1234567890123456789]}}}, "enum must have integers that a double"),
        (JSON_SCHEMA, {"const": [{"a": 10**30}]}, "const must have integers that a double"),
        (JSON_SCHEMA, {"enum": [str(n) for n in range(20_000)]}, "at most 10000 values"),
        (JSON_SCHEMA, '{"items":' * 20_000 + "{}" + "}" * 20_000, "nested"),
        (JSON_SCHEMA, '{"items":' * 120 + "{}" + "}" * 120, "nested"),
        (JSON_SCHEMA, {"type": "string", "pattern": "(?=a)"}, "look-around"),
        (JSON_SCHEMA, {"allOf": [{"anyOf": [{"properties": {f"p{i}{j}": {"type": "integer"}}} for i in range(10)]}
                                 for j in range(10)]}, "too large"),
        (REGEX, "[", "regex parse error"),
        (REGEX, r"(a)\1", "regex parse error"),
        (REGEX, "(?<=a)b", "regex parse error"),
        (REGEX, "(" * 5_000 + "a" + ")" * 5_000, "nested"),
        (REGEX, "(a+)+$", "many ways"),
        (JSON_SCHEMA, {"type": "string", "pattern": "(.*a){30}"}, "many ways"),
        (JSON_SCHEMA, {"patternProperties": {"^(a|a)*$": {}, "(a*)*": {}}}, "many ways"),
        (TAGS, tags({"type": "regex", "pattern": "a{1,1000000}"}), "more than 10000 times"),
        (GRAMMAR, 'root ::= root "a" | "a"', "begins with itself"),
        (CHOICE, [], "list of texts"),
        (CHOICE, [""], "no text matches"),
        (CHOICE, [1], "list of texts"),
        (GRAMMAR, "start: unknown", "unknown name"),
        (GRAMMAR, 'start: ""', "no text matches"),
        (GRAMMAR, "start: start", "no text matches"),
        (GRAMMAR, 'start: a\na: a | ""', "no text matches"),
        (GRAMMAR, "what is this", "Expected ::="),
        (GRAMMAR, 'root ::= "a" missing', "not found"),
        (GRAMMAR, "start: <no_such_token>", "token"),
        (GRAMMAR, "start: " + "(" * 5_000 + '"a"' + ")" * 5_000, "nested"),
        (GRAMMAR, "root ::= " + "(" * 5_000 + '"a"' + ")" * 5_000, "nested too deeply"),
        (TAGS, {"type": "structural_tag"}, "format: Field required"),
        (TAGS, [1], "should be an object"),
        (TAGS, tags({"type": "unheard_of"}), "format"),
        (TAGS, {**PLAIN_TAGS, "triggers": ["<g="]}, "no trigger begins"),
        (TAGS, {**PLAIN_TAGS, "structures": [{"begin": "<f=", "schema": {"$ref": "http://a"}, "end": ""}]}, "\\$ref"),
    ],
)  # fmt: skip
def test_a_grammar_that_cannot_be_obeyed_says_why(
    compiler: GrammarCompiler, kind: GrammarKind, definition: object, reason: str
) -> None:
    with pytest.raises(UnusableGrammar, match=reason) as refused:
        compiler.matcher(grammar(kind, definition))
    assert len(str(refused.value)) <= 400
    assert "\n" not in str(refused.value)


WIDE = {"anyOf": [{"type": "object", "properties": {f"p{i}_{j}": {}}} for i in range(200) for j in range(10)]}


@pytest.mark.parametrize(
    ("kind", "definition", "reason"),
    [
        (JSON_SCHEMA, WIDE, "Current row has"),
        (JSON_SCHEMA, {"type": "object", "properties": {"a": WIDE}, "required": ["a"]}, "Current row has"),
        (GRAMMAR, 'start: "a" start', "Too many items"),
        (GRAMMAR, 'start: /[a-z]{5,9}/ " " rest\nrest: "a" rest', "Too many items"),
        (GRAMMAR, 'start: "a"{100000}', "Too many items"),
    ],
)  # fmt: skip
def test_what_only_an_answer_would_show_is_found_by_beginning_some(
    compiler: GrammarCompiler, kind: GrammarKind, definition: object, reason: str
) -> None:
    bad = grammar(kind, definition)
    with pytest.raises(UnusableGrammar, match=reason):
        compiler.check(bad, foreign=False)
    if kind is JSON_SCHEMA:
        compiler.check(bad, foreign=True)


def test_a_grammar_is_compiled_once_and_its_matchers_do_not_share_their_place(
    compiler: GrammarCompiler, tokenizer: Tokenizer
) -> None:
    first, second = (compiler.matcher(grammar(CHOICE, ["aa", "bb"])) for _ in range(2))
    assert first.consume_tokens(tokenizer.encode("aa").ids)
    assert first.is_accepting()
    assert not second.is_accepting()


def test_only_the_grammars_that_were_used_last_are_kept() -> None:
    class Counting(GrammarCompiler):
        compiled = 0

        def _compile(self, grammar: Grammar, *, lenient: bool) -> LLMatcher:
            self.compiled += 1
            return super()._compile(grammar, lenient=lenient)

    counting = Counting.of_folder(FOLDER, vocabulary=2048, kept=2)
    assert isinstance(counting, Counting)
    first, second, third = (grammar(CHOICE, [text]) for text in ("aa", "bb", "cc"))
    for used, compiled in [(first, 1), (second, 2), (first, 2), (third, 3), (first, 3), (second, 4)]:
        counting.matcher(used)
        assert counting.compiled == compiled


def test_white_space_that_could_be_read_in_many_ways_is_refused(compiler: GrammarCompiler) -> None:
    with pytest.raises(UnusableGrammar, match="split into rounds in many ways"):
        compiler.check(grammar(JSON_SCHEMA, PAIR, "( +)+"), foreign=True)


def test_another_engine_may_know_more(compiler: GrammarCompiler) -> None:
    compiler.check(grammar(JSON_SCHEMA, {"type": "array", "uniqueItems": True}), foreign=True)
    compiler.check(grammar(GRAMMAR, "?start: what_this_engine_knows"), foreign=True)
    with pytest.raises(UnusableGrammar, match="stay within the schema"):
        compiler.check(grammar(JSON_SCHEMA, {"$ref": "http://a"}), foreign=True)


def test_a_folder_without_a_tokenizer_allows_no_grammars() -> None:
    with pytest.raises(UnusableGrammar, match="does not allow grammars"):
        GrammarCompiler.of_folder(FOLDER / "nowhere", vocabulary=2048, kept=4)
