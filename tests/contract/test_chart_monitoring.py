"""What the chart brings for Prometheus and Grafana asks for metrics that our processes have, and is explained."""

import pytest
from prometheus_client import CollectorRegistry

from conch_embed_worker.metrics import EmbedWorkerMetrics
from conch_gateway.telemetry.metrics import GatewayMetrics
from conch_kit.redis.client import RedisClient
from conch_kit.registry.metrics import RegistryCollector
from conch_kit.registry.snapshot_refresh import RegistryReader
from conch_llm_worker.metrics import LlmWorkerMetrics
from conch_media.metrics import MediaMetrics
from conch_operator.metrics import OperatorMetrics
from conch_speech_worker.metrics import SpeechWorkerMetrics
from conch_tokenizer.children.work_board import WorkBoard, board_memory
from conch_tokenizer.http.request_metrics import RequestMetrics
from conch_tokenizer.metrics import TokenizerMetrics
from generate.helm import CHART
from testkit.kubernetes.chart import Rendered
from testkit.kubernetes.prometheus_queries import alert_rules, asked, chart_queries

PAGE = CHART.parents[1] / "docs" / "monitoring.md"
QUERIES = chart_queries()
ALERTS = [rule["alert"] for rule in alert_rules()]


@pytest.fixture(scope="module")
def families() -> frozenset[str]:
    """Give the names of all metrics of all processes."""
    redis = RedisClient("redis://127.0.0.1:1")
    registry = CollectorRegistry()
    GatewayMetrics(registry)
    TokenizerMetrics(registry)
    LlmWorkerMetrics.register(registry)
    EmbedWorkerMetrics.register(registry)
    SpeechWorkerMetrics.register(registry)
    MediaMetrics.register(registry)
    OperatorMetrics.on(registry)
    with board_memory(2) as memory:
        registry.register(RequestMetrics(WorkBoard(memory)))
    registry.register(RegistryCollector(RegistryReader(redis), redis))
    return frozenset(family.name for family in registry.collect())


@pytest.mark.parametrize("place", QUERIES)
def test_a_query_asks_for_metrics_that_exist(families: frozenset[str], place: str) -> None:
    wanted = [one.family for one in asked(QUERIES[place])]
    assert wanted
    assert [family for family in wanted if family not in families] == []


@pytest.mark.parametrize("place", QUERIES)
def test_a_query_asks_in_the_namespace_of_its_release_only(place: str) -> None:
    assert {"namespace" in one.labels for one in asked(QUERIES[place])} == {True}
    assert QUERIES[place].count('namespace="$namespace"') == len(asked(QUERIES[place]))


def test_no_two_alerts_have_one_name() -> None:
    assert sorted(set(ALERTS)) == sorted(ALERTS)


@pytest.mark.parametrize("rule", alert_rules(), ids=ALERTS)
def test_an_alert_says_how_bad_it_is_and_what_has_happened(rule: dict[str, dict[str, str]]) -> None:
    assert rule["labels"]["severity"] in {"critical", "warning"}
    assert rule["annotations"].keys() == {"summary", "description"}


@pytest.mark.parametrize("alert", ALERTS)
def test_the_page_says_what_to_do_about_an_alert(alert: str) -> None:
    assert f"| `{alert}` |" in PAGE.read_text(encoding="utf-8")


def test_the_page_tells_of_every_metric(families: frozenset[str]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [family for family in sorted(families) if f"`{family}" not in text] == []


def test_rules_are_rendered_for_the_namespace_of_the_release(rendered: Rendered) -> None:
    for made in rendered.of("PrometheusRule"):
        rules = [rule for group in made["spec"]["groups"] for rule in group["rules"]]
        assert [rule["alert"] for rule in rules] == ALERTS
        assert {'namespace="conch"' in rule["expr"] for rule in rules} == {True}
        assert "$namespace" not in str(made)
