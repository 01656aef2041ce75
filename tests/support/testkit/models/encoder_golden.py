"""What the examples that are encoders are known to answer, as their reference implementations gave it."""

import json
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[4] / "examples"
TOLERANCE = 1e-3
"""Within which an answer's numbers are those of the reference."""


def encoder_golden(name: str) -> list[dict[str, Any]]:
    """Read the items of golden.json of an example."""
    items: list[dict[str, Any]] = json.loads((EXAMPLES / name / "golden.json").read_text())["items"]
    return items
