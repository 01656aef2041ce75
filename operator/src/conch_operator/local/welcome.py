"""Pure: how to call what `conch up` serves, ready to be copied."""

from collections.abc import Sequence

from conch_contracts.names import ServedName
from conch_contracts.records import ModelKind

_CHAT = """
  curl {url}/v1/chat/completions -H 'Content-Type: application/json' \\
    -d '{{"model": "{model}", "messages": [{{"role": "user", "content": "Hello"}}]}}'

  from openai import OpenAI
  client = OpenAI(base_url="{url}/v1", api_key="x")
  stream = client.chat.completions.create(
      model="{model}", messages=[{{"role": "user", "content": "Hello"}}], stream=True
  )
  for event in stream:
      print(event.choices[0].delta.content or "", end="")
"""
_EMBEDDING = """
  curl {url}/v1/embeddings -H 'Content-Type: application/json' \\
    -d '{{"model": "{model}", "input": "Hello"}}'
"""
_RERANK = """
  curl {url}/v1/rerank -H 'Content-Type: application/json' \\
    -d '{{"model": "{model}", "query": "What do cats eat?", "documents": ["Cats eat fish.", "Tax is due in May."]}}'
"""
_CLASSIFY = """
  curl {url}/classify -H 'Content-Type: application/json' \\
    -d '{{"model": "{model}", "input": "What a delightful evening."}}'
"""
_EXAMPLES = {
    ModelKind.LLM: _CHAT,
    ModelKind.EMBEDDING: _EMBEDDING,
    ModelKind.RERANK: _RERANK,
    ModelKind.CLASSIFY: _CLASSIFY,
}


def welcome(url: str, models: Sequence[tuple[ModelKind, ServedName]]) -> str:
    """Return one example for each kind of model, that of language models first."""
    first: dict[ModelKind, ServedName] = {}
    for kind, name in models:
        first.setdefault(kind, name)
    examples = (_EXAMPLES[kind].format(url=url, model=first[kind]) for kind in ModelKind if kind in first)
    return f"\nConch serves at {url}/v1\n{''.join(examples)}\nCtrl-C stops it.\n"
