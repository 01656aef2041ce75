"""Every ModelDeployment and EnginePool that the examples and the pages show is one that is taken."""

import re
from pathlib import Path

import pytest
import yaml

from conch_contracts.enginepool import parse_pool
from conch_contracts.modeldeployment import parse
from conch_contracts.names import POOL_KIND

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("**/*.yaml"))
_BLOCK = re.compile(r"^( *)```yaml\n(.*?)^\1```", re.MULTILINE | re.DOTALL)


def _shown() -> list[tuple[str, str]]:
    """Return the ModelDeployments in the pages, each with where it stands."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    blocks = ((page, match[2]) for page in pages for match in _BLOCK.finditer(page.read_text()))
    return [(page.name, block) for page, block in blocks if block.lstrip().startswith("apiVersion: conch.dev/")]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_taken(example: Path) -> None:
    _parse_all(example.read_text())


@pytest.mark.parametrize(("page", "block"), _shown())
def test_a_model_in_a_page_is_taken(page: str, block: str) -> None:
    _parse_all(block)


def _parse_all(text: str) -> None:
    for document in yaml.safe_load_all(text):
        if document["kind"] == POOL_KIND:
            parse_pool(document)
        else:
            parse(document)
