"""Grammars through the real process: what may be obeyed, what may not, and what would end a lesser service."""

import json
import threading
from pathlib import Path

import pytest

from conch_contracts.names import CHECK_GRAMMAR_PATH, Digest
from testkit.servers.redis import RedisServer
from testkit.servers.tokenizer import Answer, RunningTokenizer, run_tokenizer, wait_for

RESPAWN_S = 30
RECURSIVE = {
    "$ref": "#/$defs/node",
    "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
}
CHAIN = "start: r0\n" + "\n".join(f"r{n}: r{n + 1}" for n in range(3_000)) + '\nr3000: "a"'
"""Overflows the stack of whoever compiles it."""


def check(tokenizer: RunningTokenizer, kind: str, definition: object, *, foreign: bool = False) -> Answer:
    text = definition if isinstance(definition, str) else json.dumps(definition)
    grammar = {"kind": kind, "definition": text, "whitespace": None}
    return tokenizer.post(CHECK_GRAMMAR_PATH, {"grammar": grammar, "foreign": foreign})


@pytest.mark.parametrize(
    ("kind", "definition"),
    [
        ("json_schema", RECURSIVE),
        ("json_schema", {"type": "integer", "maximum": 2**64}),
        ("json_object", ""),
        ("regex", r"\d{3}-\d{4}"),
        ("regex", r"([a-z]+,){0,5}[a-z]+"),
        ("choice", ["a", "b"]),
        ("grammar", 'start: <think> "x" </think> | start "y"'),
        ("grammar", 'root ::= "a" [0-9]+'),
        ("structural_tag", {"type": "structural_tag", "format": {"type": "json_schema", "json_schema": RECURSIVE}}),
    ],
    ids=str,
)
def test_a_good_grammar_passes_again_and_again(tokenizer: RunningTokenizer, kind: str, definition: object) -> None:
    assert [check(tokenizer, kind, definition).status for _ in range(2)] == [200, 200]


@pytest.mark.parametrize(
    ("kind", "definition"),
    [
        ("json_schema", {"$ref": "http://169.254.169.254/latest/meta-data"}),
        ("json_schema", {"$ref": "file:///etc/passwd"}),
        ("json_schema", '{"items":' * 10_000 + "{}" + "}" * 10_000),
        ("json_schema", {"enum": [f"v{n}" for n in range(100_000)]}),
        ("json_schema", {"type": "array", "items": {}, "minItems": 1_000_000_000}),
        ("json_schema", {"type": "integer", "minimum": -(2**63) - 1, "maximum": 2**64}),
        ("json_schema", {"type": "integer", "maximum": 10**400}),
        ("json_schema", {"type": "string", "pattern": "(?=x)a"}),
        ("json_schema", {"not": {"anyOf": [{"type": "string"}] * 500}}),
        ("regex", "["),
        ("regex", r"(a)\1"),
        ("regex", "(?<=a)b"),
        ("grammar", "start: missing"),
        ("grammar", CHAIN),
        ("choice", [""]),
        ("structural_tag", {"type": "structural_tag"}),
    ],
    ids=lambda value: str(value)[:40],
)
@pytest.mark.parametrize("times", [1, 2])
def test_a_bad_grammar_is_a_400_with_its_reason(
    tokenizer: RunningTokenizer, kind: str, definition: object, times: int
) -> None:
    answer = check(tokenizer, kind, definition)
    assert answer.status == 400, answer
    assert 0 < len(answer.body["error"]["message"]) < 500
    assert check(tokenizer, "choice", ["still", "alive"]).status == 200


def test_texts_are_prepared_while_grammars_end_their_children(own_tokenizer: RunningTokenizer) -> None:
    assert own_tokenizer.chat("Hello!").status == 200
    wait_for(lambda: len(own_tokenizer.children()) == 2, RESPAWN_S)
    before = set(own_tokenizer.children())
    statuses: list[int] = []

    def attack() -> None:
        statuses.extend(check(own_tokenizer, "grammar", f"{CHAIN}\n// {n}").status for n in range(3))

    attacker = threading.Thread(target=attack)
    attacker.start()
    prepared = []
    while attacker.is_alive():
        prepared.append(own_tokenizer.chat("Hello!").status)
    attacker.join()
    assert statuses == [400] * 3
    assert set(prepared) == {200}
    assert before <= set(own_tokenizer.children())  # those that prepare texts are the same ones


def test_a_grammar_may_take_only_so_much_of_the_processor(
    redis: RedisServer, bundle: tuple[Digest, bytes], tmp_path: Path
) -> None:
    slow = {"enum": [f"{n}" * 20 for n in range(9_999)]}
    with run_tokenizer(
        redis.url, bundle[0], tmp_path, CONCH_GRAMMAR_CPU_S="0.01", CONCH_GRAMMAR_TIMEOUT_S="60"
    ) as hasty:
        answer = check(hasty, "json_schema", slow)
        assert (answer.status, "more time or memory" in answer.body["error"]["message"]) == (400, True)
        assert hasty.chat("Hello!").status == 200
