from pathlib import Path

import pytest

from conch_operator.manifests.yaml_files import ManifestError, immutable_changes, load, read

GOOD = """\
apiVersion: conch.dev/v1alpha1
kind: ModelDeployment
metadata: {name: tiny}
spec:
  kind: LLM
  source: {path: tiny}
  engine: {cpu: {}}
"""


def written(folder: Path, text: str, name: str = "models.yaml") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def test_several_documents_are_read_with_their_lines(tmp_path: Path) -> None:
    file = written(tmp_path, GOOD + "---\n" + GOOD.replace("tiny", "other") + "---\n")
    first, second = load([file]).manifests
    assert (first.deployment.model_id, first.line) == ("local/tiny", 1)
    assert (second.deployment.model_id, second.line) == ("local/other", 9)


BILLION_LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10)
)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (GOOD.replace("{path: tiny}", "{path: [tiny"), ":7:9: broken YAML: "),
        (GOOD + "  replcas: 2\n", ":8: spec.replcas: unknown field, did you mean replicas?"),
        (GOOD + "  replicas: two\n", ":8: spec.replicas: input should be a valid integer, found 'two'"),
        (GOOD + "  kind: LLM\n", ":8: kind is set twice"),
        (GOOD.replace("cpu: {}", "cpu: {maxBatchSize: 0}"), ":7: spec.engine.cpu.maxBatchSize: "),
        (GOOD.replace("  source: {path: tiny}\n", ""), ":4: spec.source: is required"),
        (GOOD.replace("ModelDeployment", "Pod"), ":2: kind: expected apiVersion"),
        (GOOD + "---\n" + GOOD, ":9: local/tiny is already defined at "),
        ("- a\n", ":1: expected a ModelDeployment, found a list"),
        ("text\n", ":1: expected a ModelDeployment, found a single value"),
        ("# nothing\n", "holds no ModelDeployment"),
        ("a: \x00", "broken YAML"),
        ("a: &a [*a]\n", ":1: broken YAML: its anchors refer to themselves"),
        ("a: " + "[" * 5000, "broken YAML: it is nested too deeply"),
        (BILLION_LAUGHS, ":1: broken YAML: its anchors refer to themselves, or make too much of it"),
    ],
)
def test_a_fault_names_its_file_and_line(tmp_path: Path, text: str, says: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(ManifestError) as caught:
        load([file])
    assert str(caught.value).startswith(str(file))
    assert says in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"none\.yaml: no such file"):
        load([tmp_path / "none.yaml"])


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    (binary := tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    for file in (tmp_path, binary):
        with pytest.raises(ManifestError, match=f"{file}: cannot be read"):
            load([file])


def test_good_objects_are_found_beside_bad_ones(tmp_path: Path) -> None:
    reading = read([written(tmp_path, GOOD + "---\n" + GOOD.replace("tiny", "Bad"))])
    assert [manifest.deployment.model_id for manifest in reading.manifests] == ["local/tiny"]
    assert len(reading.faults) == 1


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("kind: LLM", "kind: Rerank", "spec.kind cannot change from LLM to Rerank"),
        ("{cpu: {}}", '{external: {grpc: "h:1", dialect: tokens}}', "spec.engine cannot change from cpu to external"),
        ("{cpu: {}}", "{cpu: {maxBatchSize: 2}}", None),
        ("name: tiny", "name: other", None),
    ],
)
def test_kind_and_runtime_cannot_be_edited(tmp_path: Path, before: str, after: str, says: str | None) -> None:
    old = load([written(tmp_path, GOOD)]).manifests
    new = load([written(tmp_path, GOOD.replace(before, after))]).manifests
    faults = immutable_changes(old, new)
    assert says is None if not faults else says is not None and says in faults[0]


POOL = "apiVersion: conch.dev/v1alpha1\nkind: EnginePool\nmetadata: {name: small}\nspec: {memory: 1Gi}\n"
PLACED = """---
apiVersion: conch.dev/v1alpha1
kind: ModelDeployment
metadata: {name: one}
spec: {kind: Rerank, source: {path: one}, engine: {cpu: {}}, placement: {pool: small}}
"""


def test_a_pool_and_its_models_may_stand_in_files_of_their_own(tmp_path: Path) -> None:
    pool, models = tmp_path / "pool.yaml", tmp_path / "models.yaml"
    pool.write_text(POOL)
    models.write_text(PLACED)
    found = load([pool, models])
    assert [one.pool.pool_id for one in found.pools] == ["local/small"]
    assert [one.deployment.pool_id for one in found.manifests] == ["local/small"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (PLACED, ":2: local/one: spec.placement.pool: no file has an EnginePool local/small, there are: none"),
        (POOL + "---\n" + POOL, ":6: the EnginePool local/small is already defined at"),
        (POOL.replace("1Gi", "1"), ":4: spec.memory: is counted in bytes and must be at least 1Mi"),
        (POOL.replace("memory", "memry"), ":4: spec.memry: unknown field, did you mean memory?"),
        (POOL.replace("1Gi", "1Gi, maxWait: 2"), ":4: spec.maxWait: must be a duration"),
        (POOL.replace("v1alpha1", "v1"), ":1: apiVersion: expected conch.dev/v1alpha1 for kind EnginePool"),
    ],
)
def test_what_is_wrong_with_a_pool_is_said_where_it_stands(tmp_path: Path, text: str, fault: str) -> None:
    file = tmp_path / "pool.yaml"
    file.write_text(text)
    with pytest.raises(ManifestError) as refused:
        load([file])
    assert any(said.startswith(f"{file}{fault}") for said in refused.value.faults), refused.value.faults
