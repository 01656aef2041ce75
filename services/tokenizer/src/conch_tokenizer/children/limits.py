"""What a child may use and how long it may take: set in `settings`, obeyed by the rest of this folder."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ChildLimits:
    """What one child may use."""

    memory_bytes: int
    max_text_bytes: int
    models_in_memory: int
    grammar_memory_bytes: int
    """What checking one grammar may take on top of what the child has already."""
    grammar_cpu_s: float


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """How long a child may take, in seconds."""

    template_s: float
    encode_s: float
    load_s: float
