from conch_contracts.names import ServedName
from conch_contracts.records import ModelKind
from conch_operator.local.welcome import welcome


def test_each_kind_has_one_example_and_language_models_come_first() -> None:
    models = [
        (ModelKind.RERANK, ServedName("rank")),
        (ModelKind.LLM, ServedName("chat")),
        (ModelKind.LLM, ServedName("other")),
        (ModelKind.EMBEDDING, ServedName("embed")),
    ]
    text = welcome("http://localhost:8000", models)
    assert text.index('"chat"') < text.index('"embed"') < text.index('"rank"')
    assert "other" not in text
    assert "/classify" not in text
    assert "curl http://localhost:8000/v1/embeddings" in text
