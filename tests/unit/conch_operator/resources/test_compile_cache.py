"""What vLLM compiles is kept on a claim, and read by nobody but engines of the same image, model and settings."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conch_contracts.modeldeployment import parse
from conch_operator.resources.compile_cache import COMPILED, compile_cache
from conch_operator.resources.engine_objects import make_engine_objects, make_server
from conch_operator.resources.source_volume import source_volume
from conch_operator.state import DesiredModel
from testkit.bad_models import model
from testkit.bad_models.case import GPU
from testkit.builders.every_runtime import SETTINGS, TOKENS

HUB = {"huggingFace": {"repo": "org/tiny", "cache": {"claimName": "models"}}}
VOLUME = {"pvc": {"claimName": "models", "path": "tiny"}}


def desired(source: Any = HUB, beside: Any = None, **vllm: Any) -> DesiredModel:
    spec = {"source": source, "engine": {"vllm": vllm, **GPU, **(beside or {})}}
    return DesiredModel(parse(model(spec)), Path("/"), created=1, generation=1, uid="9d6cbd4e")


def pod(made: DesiredModel) -> dict[str, Any]:
    (found,) = [one for one in make_engine_objects(made, SETTINGS, TOKENS) if one["kind"] == "Deployment"]
    spec: dict[str, Any] = found["spec"]["template"]["spec"]
    return spec


def mounts(container: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {mount["mountPath"]: mount for mount in container["volumeMounts"]}


@pytest.mark.parametrize(
    ("made", "claim", "volume"),
    [
        pytest.param(desired(), "models", "source", id="of a download"),
        pytest.param(desired(VOLUME, compileCache={"claimName": "models"}), "models", "source", id="of the files"),
        pytest.param(desired(VOLUME, compileCache={"claimName": "fast"}), "fast", "compiled", id="another one"),
        pytest.param(desired(HUB, compileCache={"claimName": "fast"}), "fast", "compiled", id="not of the download"),
        pytest.param(desired({"path": "tiny"}, compileCache={"claimName": "a"}), "a", "compiled", id="of an image"),
    ],
)
def test_an_engine_may_write_its_own_folder_of_a_claim_and_nothing_else(
    made: DesiredModel, claim: str, volume: str
) -> None:
    found = pod(made)
    (engine,) = found["containers"]
    assert {"name": "VLLM_CACHE_ROOT", "value": COMPILED} in engine["env"]
    own = mounts(engine)["/conch/compiled"]
    assert own["name"] == volume
    assert own["subPath"].startswith(".conch/vllm/")
    assert "readOnly" not in own
    if "/conch/source" in mounts(engine):
        assert mounts(engine)["/conch/source"]["readOnly"] is True
    (mounted,) = [one for one in found["volumes"] if one["name"] == volume]
    assert mounted["persistentVolumeClaim"] == {"claimName": claim}
    (maker,) = [one for one in found["initContainers"] if one["name"] == "compile-cache"]
    assert own["subPath"] in maker["command"]
    assert maker["resources"]["limits"].keys() == {"cpu", "memory"}


@pytest.mark.parametrize(
    "source", [VOLUME, {"huggingFace": {"repo": "org/tiny", "cache": {"size": "9Gi"}}}, {"path": "tiny"}], ids=str
)
def test_without_a_claim_to_write_it_stays_in_the_pod(source: Any) -> None:
    found = pod(desired(source))
    assert "/conch/compiled" not in mounts(found["containers"][0])
    assert {"name": "VLLM_CACHE_ROOT", "value": COMPILED} in found["containers"][0]["env"]
    assert "compile-cache" not in [one["name"] for one in found["initContainers"]]
    claims = [one["persistentVolumeClaim"] for one in found["volumes"] if "persistentVolumeClaim" in one]
    assert all(claim["readOnly"] for claim in claims)


def _folder(made: DesiredModel) -> str:
    cache = compile_cache(made, make_server(made, source_volume(made.deployment.spec)), SETTINGS)
    assert cache is not None
    return str(cache.mounts[0]["subPath"])


def test_another_image_model_or_setting_is_another_folder() -> None:
    others = [
        desired(beside={"image": "registry.example.com/vllm:2"}),
        desired({"huggingFace": {**HUB["huggingFace"], "revision": "v2"}}),
        desired({"huggingFace": {**HUB["huggingFace"], "repo": "org/other"}}),
        desired(maxModelLen=1024),
        desired(dtype="float16"),
        desired(beside={"env": [{"name": "VLLM_ATTENTION_BACKEND", "value": "FLASHINFER"}]}),
        desired(beside={"args": ["--log-verbose=1"]}),
    ]
    folders = {_folder(made) for made in (desired(), *others)}
    assert len(folders) == len(others) + 1
    assert _folder(desired()) == _folder(desired(beside={"labels": {"team": "a"}}))


def _run(made: DesiredModel, claim: Path, link: Path, *packages: Path) -> subprocess.CompletedProcess[str]:
    """Run the init container's command on this machine, where the mounts are elsewhere."""
    cache = compile_cache(made, make_server(made, source_volume(made.deployment.spec)), SETTINGS)
    assert cache is not None
    _, _, script, _, folder, *_ = cache.init_container["command"]
    search = {"PYTHONPATH": ":".join(map(str, packages))}
    mount = str(claim / folder)
    words = [sys.executable, "-c", script, str(claim), folder, mount, str(link)]
    return subprocess.run(words, capture_output=True, text=True, check=False, env=search, timeout=30)


def test_the_link_leads_to_a_folder_of_the_images_packages(tmp_path: Path) -> None:
    claim, link = tmp_path / "claim", tmp_path / "tmp" / "vllm"
    claim.mkdir()
    link.parent.mkdir()
    assert _run(desired(), claim, link).returncode == 0
    (link / "graph").write_text("compiled")
    assert _run(desired(), claim, link).returncode == 0  # a new pod
    assert (link / "graph").read_text() == "compiled"
    newer = tmp_path / "packages" / "vllm-99.dist-info"
    newer.mkdir(parents=True)
    (newer / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 99\n")
    assert _run(desired(), claim, link, newer.parent).returncode == 0  # the tag was moved
    assert list(link.iterdir()) == []


def test_a_claim_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    claim = tmp_path / "claim"
    claim.write_text("no folder")
    failed = _run(desired(), claim, tmp_path / "link")
    assert failed.returncode == 1
    assert "name another claim in engine.vllm.compileCache" in failed.stderr
