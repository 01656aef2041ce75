from pathlib import Path

from conch_contracts.names import ServedName
from conch_contracts.records import ModelKind
from conch_operator.local.welcome import Caller, welcome

OPEN = Caller(Path(".venv/bin/python"))


def test_each_kind_has_one_example_and_language_models_come_first() -> None:
    models = [
        (ModelKind.RERANK, ServedName("rank")),
        (ModelKind.LLM, ServedName("chat")),
        (ModelKind.LLM, ServedName("other")),
        (ModelKind.EMBEDDING, ServedName("embed")),
    ]
    text = welcome("http://localhost:8000", models, OPEN)
    assert text.index('"chat"') < text.index('"embed"') < text.index('"rank"')
    assert "other" not in text
    assert "/classify" not in text
    assert "curl http://localhost:8000/v1/embeddings" in text


def test_examples_say_whose_sdk_it_is_and_which_key_is_needed() -> None:
    models = [(kind, ServedName(kind.lower())) for kind in ModelKind]
    plain = welcome("http://localhost:8000", models, OPEN)
    assert "\n.venv/bin/python - <<'P'\n" in plain
    assert 'api_key="x"' in plain
    assert "Authorization" not in plain
    keyed = welcome("http://localhost:8000", models, Caller(OPEN.python, "keys.txt"))
    assert 'api_key="<a key of keys.txt>"' in keyed
    assert keyed.count("-H 'Authorization: Bearer <a key of keys.txt>'") == keyed.count("curl ") == len(models)
