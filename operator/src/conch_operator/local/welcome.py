"""Pure: how to call what `conch up` serves, ready to be copied into a shell."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from conch_contracts.names import ServedName
from conch_contracts.records import ModelKind

_CHAT = """
curl {url}/v1/chat/completions {auth}-H 'Content-Type: application/json' \\
  -d '{{"model": "{model}", "messages": [{{"role": "user", "content": "Hello"}}]}}'

{python} - <<'P'
from openai import OpenAI
client = OpenAI(base_url="{url}/v1", api_key="{key}")
stream = client.chat.completions.create(
    model="{model}", messages=[{{"role": "user", "content": "Hello"}}], stream=True
)
for event in stream:
    print(event.choices[0].delta.content or "", end="")
P
"""
_EMBEDDING = """
curl {url}/v1/embeddings {auth}-H 'Content-Type: application/json' \\
  -d '{{"model": "{model}", "input": "Hello"}}'
"""
_RERANK = """
curl {url}/v1/rerank {auth}-H 'Content-Type: application/json' \\
  -d '{{"model": "{model}", "query": "What do cats eat?", "documents": ["Cats eat fish.", "Tax is due in May."]}}'
"""
_CLASSIFY = """
curl {url}/classify {auth}-H 'Content-Type: application/json' \\
  -d '{{"model": "{model}", "input": "What a delightful evening."}}'
"""
_TRANSCRIPTION = """
curl {url}/v1/audio/transcriptions {auth}-F model={model} -F file=@speech.wav
"""
_EXAMPLES = {
    ModelKind.LLM: _CHAT,
    ModelKind.EMBEDDING: _EMBEDDING,
    ModelKind.RERANK: _RERANK,
    ModelKind.CLASSIFY: _CLASSIFY,
    ModelKind.TRANSCRIPTION: _TRANSCRIPTION,
}


@dataclass(frozen=True, slots=True)
class Caller:
    """What the one who calls has, and needs."""

    python: Path
    """An interpreter that has OpenAI's SDK."""
    keys_file: str | None = None
    """Where the API keys stand; None where none is needed."""


def welcome(url: str, models: Sequence[tuple[ModelKind, ServedName]], caller: Caller) -> str:
    """Return one example for each kind of model, that of language models first."""
    key = "x" if caller.keys_file is None else f"<a key of {caller.keys_file}>"
    auth = "" if caller.keys_file is None else f"-H 'Authorization: Bearer {key}' "
    first: dict[ModelKind, ServedName] = {}
    for kind, name in models:
        first.setdefault(kind, name)
    told = {"url": url, "key": key, "auth": auth, "python": caller.python}
    examples = (_EXAMPLES[kind].format(model=first[kind], **told) for kind in ModelKind if kind in first)
    return f"\nConch serves at {url}/v1\n{''.join(examples)}\nCtrl-C stops it.\n"
