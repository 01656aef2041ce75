from pathlib import Path

import pytest
import yaml

from conch_kit.settings import SettingsError
from conch_operator.resources.worker_pool import WorkerPoolPlace, make_worker_pool
from conch_operator.settings import read_release

_CHART = Path(__file__).parents[2] / "contract" / "chart" / "golden"


@pytest.mark.parametrize("golden", ["default", "everything"])
def test_what_the_chart_writes_is_read(golden: str, tmp_path: Path) -> None:
    objects = [item for item in yaml.safe_load_all((_CHART / f"{golden}.yaml").read_text()) if item]
    texts = [item["data"]["settings.yaml"] for item in objects if "settings.yaml" in item.get("data", {})]
    file = tmp_path / "settings.yaml"
    file.write_text(texts[0])
    release = read_release(file)
    assert set(release.worker_pools) == {"llm", "embed", "speech"}
    owner = {"uid": "u"}
    made = make_worker_pool("llm", release.worker_pools["llm"], WorkerPoolPlace("conch", owner, replicas=3))
    assert [one["kind"] for one in made] == ["Deployment", "PodDisruptionBudget"]
    assert made[0]["spec"]["replicas"] == 3
    assert all(one["metadata"]["ownerReferences"] == [owner] for one in made)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("release: {name: a, namespace: b}", "engines: Field required"),
        ("release: {name: a, namespace: b}\nengines: {agentImage: i, typo: 1}", "engines.typo"),
        (
            "release: {name: a, namespace: b}\nengines: {agentImage: i, networkPolicy: {enabled: true, from: [{}]}}",
            "engines.networkPolicy: .*agentFrom must name who may call",
        ),
        ("{", "no YAML"),
    ],
)
def test_a_wrong_file_is_refused_by_field(text: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(text)
    with pytest.raises(SettingsError, match=says):
        read_release(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="CONCH_SETTINGS_FILE"):
        read_release(tmp_path / "none")
