"""Labels and annotations of an engine's pods that its author adds to Conch's own.

By its own labels Conch finds a pod again, and Services, policies and budgets choose it; so no author may set those.
"""

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from conch_contracts.names import COMPONENT_LABEL, GROUP, INSTANCE_LABEL, MANAGED_BY_LABEL, NAME_LABEL
from conch_contracts.spec.nodes import LabelValue
from conch_contracts.spec.rule_types import Obeys, Rule

RESERVED_LABELS = (
    f"{GROUP}/",
    NAME_LABEL,
    INSTANCE_LABEL,
    COMPONENT_LABEL,
    MANAGED_BY_LABEL,
    "pod-template-hash",
    "controller-revision-hash",
)
RESERVED_ANNOTATIONS = (
    f"{GROUP}/",
    "kubectl.kubernetes.io/",
    "deployment.kubernetes.io/",
    "container.apparmor.security.beta.kubernetes.io/",
)
"""Conch's and Kubernetes' own, and those that would loosen a container's security."""

_KEY = "([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
_KEYS = Obeys(
    Rule(
        cel=f"self.all(key, key.matches('^({_KEY})$'))",
        message="must have keys as Kubernetes has, such as team or example.com/team",
        holds=lambda given: all(re.fullmatch(_KEY, key) for key in given),
    )
)


def _not_reserved(reserved: tuple[str, ...]) -> Obeys:
    listed = "|".join(re.escape(key) if key.endswith("/") else f"{re.escape(key)}$" for key in reserved)
    pattern = re.compile(listed)
    families = ("all that begin with " + key if key.endswith("/") else key for key in reserved)
    return Obeys(
        Rule(
            cel=f"!self.exists(key, key.matches(r'^({listed})'))",
            message=f"these are not yours to set, remove them: {', '.join(families)}",
            holds=lambda given: not any(pattern.match(key) for key in given),
        )
    )


PodLabelValues = Annotated[Mapping[str, LabelValue], Field(max_length=32), _KEYS, _not_reserved(RESERVED_LABELS)]
PodAnnotations = Annotated[
    Mapping[str, Annotated[str, Field(max_length=4096)]],
    Field(max_length=32),
    _KEYS,
    _not_reserved(RESERVED_ANNOTATIONS),
]
