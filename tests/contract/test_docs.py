"""The pages agree with the code: every reason is explained once, every page is linked, every link leads somewhere."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from conch_contracts.conditions import Reason
from conch_contracts.names import CACHE_PREFIX, CHANGES_CHANNEL, KEY_PREFIX, LOADS_KEY, RESPONSE_PREFIX

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))
_REASON_ROW = re.compile(r"^\| `([A-Za-z]+)` \|", re.MULTILINE)
_ANCHOR = re.compile(r"\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_OF_THE_SERVER = {"RateLimited", "UpstreamError", "Unavailable", "UpstreamTimeout"}
_LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)")


def test_every_reason_is_explained_exactly_once() -> None:
    explained = _REASON_ROW.findall((ROOT / "docs" / "troubleshooting.md").read_text())
    assert sorted(explained) == sorted(reason.value for reason in Reason)


def test_every_answer_of_429_and_5xx_is_explained() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    assert {words for words in _messages() if words not in page} == set()


def test_the_rights_of_a_user_of_an_external_redis_are_all_named() -> None:
    page = (ROOT / "docs" / "install.md").read_text()
    keys = [f"`{prefix}*`" for prefix in (KEY_PREFIX, CACHE_PREFIX, RESPONSE_PREFIX)]
    assert [name for name in (*keys, f"`{CHANGES_CHANNEL}`", f"`{LOADS_KEY}`") if name not in page] == []


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=lambda page: page.name)
def test_every_link_leads_to_a_file(page: Path) -> None:
    missing = [link for link in _LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert missing == []


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        for link in _LINK.findall(page.read_text()):
            target = (page.parent / link).resolve()
            if target.suffix == ".md" and target not in reached:
                reached.add(target)
                waiting.append(target)
    assert [page.name for page in PAGES if page not in reached] == []


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=lambda page: str(page.relative_to(ROOT)))
def test_every_anchor_leads_to_a_heading(page: Path) -> None:
    links = _ANCHOR.findall(page.read_text())
    targets = ((link, anchor, (page.parent / link) if link else page) for link, anchor in links)
    assert [(link, anchor) for link, anchor, target in targets if anchor not in _anchors(target)] == []


def test_the_index_names_every_page() -> None:
    named = set(_LINK.findall((ROOT / "docs" / "README.md").read_text()))
    assert [page.name for page in PAGES if page.name != "README.md" and page.name not in named] == []


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "README.md"], ids=lambda page: page.name)
def test_every_page_begins_with_the_way_back_to_the_index(page: Path) -> None:
    assert page.read_text().splitlines()[2].startswith("[All pages](README.md) · ")


def _messages() -> Iterator[str]:
    """Yield the fixed words of every message of such an answer; what services say of a fault of theirs stays inside."""
    for source in (*ROOT.glob("services/*/src/**/*.py"), *ROOT.glob("libs/kit/src/**/*.py")):
        kinds = _OF_THE_SERVER | ({"InternalError"} if "gateway" in source.parts else set())
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in kinds and node.args:
                parts = node.args[0].values if isinstance(node.args[0], ast.JoinedStr) else node.args[:1]
                constants = (part.value for part in parts if isinstance(part, ast.Constant))
                yield from (words.strip() for words in constants if isinstance(words, str))


def _anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = (heading.strip().lower() for heading in _HEADING.findall(page.read_text()))
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in headings}
