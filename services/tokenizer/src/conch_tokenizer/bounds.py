"""What a child may use and how long it may take: set in `settings`, obeyed by `zygote`, `child` and `connection`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one child may use."""

    memory_bytes: int
    max_text_bytes: int
    models_in_memory: int


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """How long a child may take, in seconds."""

    template_s: float
    encode_s: float
    load_s: float
