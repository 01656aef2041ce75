"""Reads what a folder says about how its model is sampled: generation_config.json, and the ids that end an answer.

Blocks on the disk, like `reader`, which calls it.
"""

from collections.abc import Mapping
from pathlib import Path

from conch_operator.model_folder.json_files import Json, read_object
from conch_operator.state import GenerationFacts


def read_generation(folder: Path, config: Json, tokens: Mapping[str, int]) -> GenerationFacts:
    """Return what the folder says; raises SourceError. A number that no API would take is left out."""
    said = read_object(folder / "generation_config.json") or {}
    top_k = said.get("top_k")
    return GenerationFacts(
        eos_token_ids=_eos_ids(said, config, folder, tokens),
        temperature=_number(said, "temperature", least=0, most=2),
        top_p=_number(said, "top_p", least=1e-9, most=1),
        top_k=top_k if isinstance(top_k, int) and not isinstance(top_k, bool) and 0 <= top_k < 2**31 else None,
        min_p=_number(said, "min_p", least=0, most=1),
        repetition_penalty=_number(said, "repetition_penalty", least=1e-9, most=100),
    )


def _eos_ids(said: Json, config: Json, folder: Path, tokens: Mapping[str, int]) -> tuple[int, ...]:
    for source in (said, config):
        value = source.get("eos_token_id")
        ids = value if isinstance(value, list) else [value]
        if found := tuple(token for token in ids if isinstance(token, int)):
            return found
    token = (read_object(folder / "tokenizer_config.json") or {}).get("eos_token")
    content = token.get("content") if isinstance(token, dict) else token
    return (tokens[content],) if isinstance(content, str) and content in tokens else ()


def _number(said: Json, key: str, *, least: float, most: float) -> float | None:
    value = said.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        return None
    return float(value)
