"""Whether a chat template compiles. Where it does not, the model must not become ready: every chat would fail.

The compiler runs as a process of its own (`template_compiler`), because templates come with models.
"""

import subprocess
import sys
from functools import lru_cache

from conch_operator import template_compiler

MAX_CHARACTERS = 131_072
"""Of a template; the same bound as of one that is written into a ModelDeployment."""
_TIMEOUT_S = 10.0
_KNOWN = 256


def fault_in(template: str) -> str | None:
    """Return why a template does not compile, with the line; None when it does. Blocks for a moment the first time."""
    if len(template) > MAX_CHARACTERS:
        return f"it has {len(template)} characters, at most {MAX_CHARACTERS} are allowed"
    return _compile(template)


@lru_cache(maxsize=_KNOWN)
def _compile(template: str) -> str | None:
    command = [sys.executable, "-I", template_compiler.__file__]
    try:
        done = subprocess.run(
            command, input=template.encode("utf-8", "replace"), capture_output=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return "it takes too long to compile"
    if done.returncode == 0:
        return None
    said = " ".join(done.stdout.decode(errors="replace").split())
    return said[:400] or "it needs more time or memory to compile than it may have"
