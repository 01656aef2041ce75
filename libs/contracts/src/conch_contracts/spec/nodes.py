"""Which nodes an engine's pods may run on; the fields and their meanings are those of a Pod."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from conch_contracts.spec.fields import Integer, SpecPart
from conch_contracts.spec.rule_types import Obeys, Rule, rule

_LABEL_KEY = r"^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$"
_LABEL_KEYS = Obeys(
    Rule(
        cel=f"self.all(key, key.matches('{_LABEL_KEY}'))",
        message="must have labels for keys, such as kubernetes.io/arch",
        holds=lambda labels: all(re.fullmatch(_LABEL_KEY, key) for key in labels),
    )
)
LabelKey = Annotated[str, Field(pattern=_LABEL_KEY, max_length=317)]
LabelValue = Annotated[str, Field(pattern=r"^([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)?$", max_length=63)]
Labels = Annotated[Mapping[str, LabelValue], Field(max_length=32)]
NodeLabels = Annotated[Labels, _LABEL_KEYS]
Weight = Annotated[Integer, Field(ge=1, le=100)]


class TolerationOperator(StrEnum):
    """How a toleration compares with a taint."""

    EXISTS = "Exists"
    EQUAL = "Equal"


class TaintEffect(StrEnum):
    """What a taint does to pods that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class Toleration(SpecPart):
    """A taint that the engine's pods tolerate."""

    key: LabelKey | None = None
    """The taint's key. Default: every taint, with operator Exists."""
    operator: TolerationOperator = TolerationOperator.EQUAL
    """Exists, or Equal to value. Default: Equal."""
    value: LabelValue | None = None
    """The taint's value, with operator Equal. Default: empty."""
    effect: TaintEffect | None = None
    """The taint's effect: NoSchedule, PreferNoSchedule or NoExecute. Default: all of them."""
    toleration_seconds: Annotated[Integer, Field(ge=0, le=86_400_000)] | None = None
    """How long a NoExecute taint is tolerated. Default: for ever."""

    @rule(
        cel="self.operator == 'Exists' ? !has(self.value) : has(self.key)",
        message="operator Exists takes no value, and operator Equal needs a key: remove value, or set key",
    )
    def _operator_fits(self) -> bool:
        return self.value is None if self.operator is TolerationOperator.EXISTS else self.key is not None

    @rule(
        cel="!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
        message="tolerationSeconds needs effect NoExecute: set it, or remove tolerationSeconds",
    )
    def _seconds_fit(self) -> bool:
        return self.toleration_seconds is None or self.effect is TaintEffect.NO_EXECUTE


class MatchOperator(StrEnum):
    """How a label is compared with values."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GREATER = "Gt"
    LESS = "Lt"


class LabelExpression(SpecPart):
    """A condition on one label; Gt and Lt are for nodes only."""

    key: LabelKey
    """The label's key."""
    operator: MatchOperator
    """In, NotIn, Exists, DoesNotExist, Gt or Lt."""
    values: Annotated[tuple[LabelValue, ...], Field(max_length=64)] = ()
    """The values to compare with; exactly one for Gt and Lt, none for Exists and DoesNotExist."""

    @rule(
        cel="self.operator in ['Exists', 'DoesNotExist'] ? !has(self.values) || size(self.values) == 0 : "
        "has(self.values) && (self.operator in ['Gt', 'Lt'] ? size(self.values) == 1 : size(self.values) >= 1)",
        message="values must be empty for Exists and DoesNotExist, one for Gt and Lt, one or more for In and NotIn",
    )
    def _values_fit(self) -> bool:
        match self.operator:
            case MatchOperator.EXISTS | MatchOperator.DOES_NOT_EXIST:
                return not self.values
            case MatchOperator.GREATER | MatchOperator.LESS:
                return len(self.values) == 1
            case MatchOperator.IN | MatchOperator.NOT_IN:
                return len(self.values) >= 1


Expressions = Annotated[tuple[LabelExpression, ...], Field(max_length=16)]


class NodeTerm(SpecPart):
    """Conditions on a node's labels, all of which must hold."""

    match_expressions: Annotated[Expressions, Field(min_length=1)]
    """The conditions."""


class NodeSelector(SpecPart):
    """Terms of which one must hold."""

    node_selector_terms: Annotated[tuple[NodeTerm, ...], Field(min_length=1, max_length=16)]
    """The terms."""


class PreferredNode(SpecPart):
    """A term that is wished for."""

    weight: Weight
    """How much, 1 to 100."""
    preference: NodeTerm
    """The term."""


class PodLabels(SpecPart):
    """A choice of pods by their labels; all of it must hold."""

    match_labels: Labels | None = None
    """Labels and their values."""
    match_expressions: Expressions = ()
    """Conditions on labels."""


class PodTerm(SpecPart):
    """Pods, and the domain in which to be near to or far from them."""

    topology_key: LabelKey
    """The node label whose value is the domain, such as kubernetes.io/hostname."""
    label_selector: PodLabels
    """Which pods."""
    namespaces: Annotated[tuple[Annotated[str, Field(max_length=63)], ...], Field(max_length=32)] = ()
    """Where they are. Default: the ModelDeployment's namespace."""


class PreferredPods(SpecPart):
    """A term that is wished for."""

    weight: Weight
    """How much, 1 to 100."""
    pod_affinity_term: PodTerm
    """The term."""


PodTerms = Annotated[tuple[PodTerm, ...], Field(max_length=16)]
PodWishes = Annotated[tuple[PreferredPods, ...], Field(max_length=16)]


class NodeAffinity(SpecPart):
    """Nodes that are needed or wished for."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    """What a node must fulfil."""
    preferred_during_scheduling_ignored_during_execution: Annotated[
        tuple[PreferredNode, ...], Field(max_length=16)
    ] = ()
    """What a node should fulfil."""


class PodAffinity(SpecPart):
    """Pods to be near to."""

    required_during_scheduling_ignored_during_execution: PodTerms = ()
    """What must hold."""
    preferred_during_scheduling_ignored_during_execution: PodWishes = ()
    """What should hold."""


class PodAntiAffinity(SpecPart):
    """Pods to be far from."""

    required_during_scheduling_ignored_during_execution: PodTerms = ()
    """What must hold."""
    preferred_during_scheduling_ignored_during_execution: PodWishes = ()
    """What should hold."""


class AffinitySpec(SpecPart):
    """Rules about nodes and other pods, as in a Pod."""

    node_affinity: NodeAffinity | None = None
    """Nodes that are needed or wished for."""
    pod_affinity: PodAffinity | None = None
    """Pods to be near to."""
    pod_anti_affinity: PodAntiAffinity | None = None
    """Pods to be far from."""


class UnsatisfiableSpread(StrEnum):
    """What happens to a pod that cannot be spread as asked."""

    DO_NOT_SCHEDULE = "DoNotSchedule"
    SCHEDULE_ANYWAY = "ScheduleAnyway"


class NodeInclusion(StrEnum):
    """Whether what a pod says about nodes counts when its spread is computed."""

    HONOR = "Honor"
    IGNORE = "Ignore"


class SpreadConstraint(SpecPart):
    """How evenly the engines' pods are spread over domains of nodes."""

    max_skew: Annotated[Integer, Field(ge=1, le=1000)]
    """By how many pods two domains may differ."""
    topology_key: LabelKey
    """The node label whose value is the domain, such as topology.kubernetes.io/zone."""
    when_unsatisfiable: UnsatisfiableSpread
    """What happens to a pod that cannot be spread so: DoNotSchedule or ScheduleAnyway."""
    label_selector: PodLabels | None = None
    """Which pods are counted. Default: this model's engines."""
    min_domains: Annotated[Integer, Field(ge=1, le=1000)] | None = None
    """At least over how many domains, with DoNotSchedule. Default: 1."""
    node_affinity_policy: NodeInclusion | None = None
    """Whether only nodes count that nodeSelector and affinity allow: Honor or Ignore. Default: Honor."""
    node_taints_policy: NodeInclusion | None = None
    """Whether only nodes count whose taints are tolerated: Honor or Ignore. Default: Ignore."""
    match_label_keys: Annotated[tuple[LabelKey, ...], Field(max_length=8)] = ()
    """Labels of the pod whose values counted pods must have too, such as pod-template-hash. Default: none."""

    @rule(
        cel="!has(self.minDomains) || self.whenUnsatisfiable == 'DoNotSchedule'",
        message="minDomains needs whenUnsatisfiable DoNotSchedule: set it, or remove minDomains",
    )
    def _domains_fit(self) -> bool:
        return self.min_domains is None or self.when_unsatisfiable is UnsatisfiableSpread.DO_NOT_SCHEDULE


_DIFFERENT_SPREADS = Obeys(
    Rule(
        cel="self.all(one, self.exists_one(other, other.topologyKey == one.topologyKey && "
        "other.whenUnsatisfiable == one.whenUnsatisfiable))",
        message="topologySpreadConstraints holds a topologyKey twice with the same whenUnsatisfiable; remove one of "
        "the two",
        holds=lambda spreads: (
            len({(spread.topology_key, spread.when_unsatisfiable) for spread in spreads}) == len(spreads)
        ),
    )
)
SpreadConstraints = Annotated[tuple[SpreadConstraint, ...], Field(max_length=8), _DIFFERENT_SPREADS]
