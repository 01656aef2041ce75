"""Whether a chat template compiles. Where it does not, the model must not become ready: every chat would fail.

The compiler runs as a process of its own (`template_compiler`), because templates come with models.
"""

import signal
import subprocess
import sys
from functools import lru_cache

from conch_operator.model_folder import template_compiler
from conch_operator.model_folder.errors import TemplateUnchecked

MAX_CHARACTERS = 131_072
"""Of a template; the same bound as of one that is written into a ModelDeployment."""
_TIMEOUT_S = 10.0
_KNOWN = 256


def fault_in(template: str) -> str | None:
    """Return why a template does not compile, with the line; None when it does. Blocks for a moment the first time.

    Raises TemplateUnchecked when the compiler gave no verdict; another attempt may get one.
    """
    if len(template) > MAX_CHARACTERS:
        return f"it has {len(template)} characters, at most {MAX_CHARACTERS} are allowed"
    return _compile(template)


@lru_cache(maxsize=_KNOWN)
def _compile(template: str) -> str | None:
    """Return the compiler's verdict; a verdict is remembered, a failure to get one is not."""
    command = [sys.executable, "-I", template_compiler.__file__]
    try:
        done = subprocess.run(
            command, input=template.encode("utf-8", "replace"), capture_output=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise TemplateUnchecked(f"its compiler has not ended within {_TIMEOUT_S:g} s") from error
    except OSError as error:
        raise TemplateUnchecked(f"its compiler cannot be started: {error.strerror or error}") from error
    if done.returncode == 0:
        return None
    if done.returncode == -signal.SIGXCPU:
        return "it needs more time to compile than it may have"  # of the processor's, so no load excuses it
    said = " ".join(done.stdout.decode(errors="replace").split())
    if done.returncode != 1 or not said:
        raise TemplateUnchecked(f"its compiler has ended with status {done.returncode}")
    return said[:400]
