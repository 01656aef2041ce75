"""What queries of Prometheus ask for: those of the chart's alert rules and of its dashboard."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from generate.helm import CHART

_FILES = CHART / "files"
_SELECTOR = re.compile(r"\b(conch_\w+)(?:\{([^}]*)\})?")
_MATCHER = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"")
_GROUPED = re.compile(r"\b(?:by|without|on)\s*\(([^)]*)\)")
_HISTOGRAM = re.compile(r"_(bucket|sum|count)$")


@dataclass(frozen=True, slots=True)
class Asked:
    """A metric that a query asks for, and the labels that it chooses or that the query groups by."""

    metric: str
    labels: frozenset[str]

    @property
    def family(self) -> str:
        """Return what the metric is called where it is made: without the ends that a kind of metric adds."""
        return _HISTOGRAM.sub("", self.metric).removesuffix("_total")


def alert_rules() -> list[dict[str, Any]]:
    """Return the chart's alert rules."""
    groups = yaml.safe_load((_FILES / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def chart_queries() -> Mapping[str, str]:
    """Return all queries of the chart by where they stand."""
    board = json.loads((_FILES / "dashboard.json").read_text(encoding="utf-8"))
    shown = {
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in board["panels"]
        for target in panel.get("targets", ())
    }
    return shown | {rule["alert"]: rule["expr"] for rule in alert_rules()}


def asked(query: str) -> list[Asked]:
    """Return what a query asks for."""
    grouped = {label for group in _GROUPED.findall(query) for label in re.findall(r"\w+", group)}
    return [
        Asked(metric, frozenset(grouped) | frozenset(_MATCHER.findall(matchers)))
        for metric, matchers in _SELECTOR.findall(query)
    ]
