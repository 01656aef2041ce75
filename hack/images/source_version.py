"""Names what the images are made of: a digest for their tag, so that nothing is built twice, and the commit."""

import hashlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

_IGNORE_FILE = ".dockerignore"


def digest(root: Path) -> str:
    """Return a short digest of the Dockerfile and of every file that it can copy."""
    content = hashlib.sha256()
    for path in sorted([root / "Dockerfile", *_copied(root)]):
        name, data = str(path.relative_to(root)).encode(), path.read_bytes()
        content.update(b"%d %d %d " % (len(name), len(data), path.stat().st_mode & 0o111))
        content.update(name + data)
    return content.hexdigest()[:12]


def revision(root: Path) -> str:
    """Return the commit that is built, empty without git."""
    if not shutil.which("git"):
        return ""
    asked = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()


def _copied(root: Path) -> Iterator[Path]:
    """Return the files that the ignore file lets through: it ignores all, then names what is needed after all."""
    lines = (root / _IGNORE_FILE).read_text().splitlines()
    ignored = [line.removeprefix("**/") for line in lines if line.startswith("**/")]
    for line in lines:
        if line.startswith("!"):
            yield from _files(root / line.removeprefix("!"), ignored)


def _files(path: Path, ignored: list[str]) -> Iterator[Path]:
    if any(path.match(pattern) for pattern in ignored):
        return
    if path.is_dir():
        for inner in path.iterdir():
            yield from _files(inner, ignored)
    else:
        yield path
