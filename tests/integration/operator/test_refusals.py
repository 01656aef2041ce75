"""`conch up` refuses what it cannot serve: one sentence, an exit status, and nothing left running."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from conch_contracts.spec.addresses import LEADS_BACK
from testkit.bad_models import model, naming
from testkit.processes.conch_up import EXAMPLE, example_text, free_port


def conch(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CONCH_")}  # noqa: TID251
    return subprocess.run(
        [sys.executable, "-m", "conch_operator.cli", *arguments],
        cwd=cwd,
        env=kept | environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def example(folder: Path, before: str = "", after: str = "") -> str:
    file = folder / "models.yaml"
    text = example_text()
    file.write_text(text.replace(before, after) if before else text)
    return str(file)


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("  kind: LLM", "  kind: [LLM", "models.yaml:13:14: broken YAML"),
        ("replicas:", "replcas:", "models.yaml:15: spec.replcas: unknown field, did you mean replicas?"),
        (str(EXAMPLE.parent), "/nowhere", "tiny-chat: The folder /nowhere/tiny-chat does not exist"),
    ],
)
def test_a_bad_file_is_refused(tmp_path: Path, before: str, after: str, says: str) -> None:
    result = conch("up", "-f", example(tmp_path, before, after), cwd=tmp_path)
    assert result.returncode == 1
    assert says in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_state_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    result = conch("up", "-f", example(tmp_path), "--state-dir", "state", cwd=tmp_path)
    assert result.returncode == 1
    assert "state cannot be used: File exists; choose another with --state-dir." in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("port", ["abc", "-1", "65536", "8_0"])
def test_a_port_that_is_none_is_refused(tmp_path: Path, port: str) -> None:
    result = conch("up", "-f", example(tmp_path), f"--port={port}", cwd=tmp_path)
    assert result.returncode == 2
    assert f"must be between 0 and 65535, found {port}" in result.stderr


@pytest.mark.parametrize(
    ("setting", "value", "says"),
    [
        ("CONCH_API_KEY_FILE", "keys", "CONCH_API_KEY_FILE is not a setting of this process"),
        ("CONCH_API_KEYS_FILE", "/nowhere/keys", "Expected a readable file of API keys at /nowhere/keys"),
    ],
)
def test_a_setting_that_the_gateway_refuses_ends_conch_up(tmp_path: Path, setting: str, value: str, says: str) -> None:
    port = str(free_port())
    result = conch("up", "-f", example(tmp_path), "--port", port, cwd=tmp_path, **{setting: value})
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1].startswith("conch: The gateway cannot start: it exited with status")
    assert says in result.stderr.splitlines()[-1]
    assert not (tmp_path / ".conch" / "run" / "gateway.json").exists()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    result = conch("up", "-f", "none.yaml", cwd=tmp_path)
    assert (result.returncode, result.stderr) == (1, "conch: none.yaml: no such file\n")


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        result = conch("up", "-f", example(tmp_path), "--host", "127.0.0.1", "--port", port, cwd=tmp_path)
    assert result.returncode == 1
    assert f"Port {port} on 127.0.0.1 cannot be used" in result.stderr


@pytest.mark.parametrize("arguments", [("up",), ("up", "--port", "x"), ("serve",)])
def test_wrong_usage_has_its_own_status(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    assert conch(*arguments, cwd=tmp_path).returncode == 2


def test_an_unknown_log_level_is_named(tmp_path: Path) -> None:
    result = conch("up", "-f", example(tmp_path), cwd=tmp_path, LOG_LEVEL="LOUD")
    assert result.returncode == 1
    assert "LOG_LEVEL must be one of CRITICAL" in result.stderr


def test_status_says_that_nothing_runs(tmp_path: Path) -> None:
    result = conch("status", cwd=tmp_path)
    assert result.returncode == 1
    assert f"Nothing runs with the state folder {tmp_path / '.conch'}" in result.stderr


def test_validate_answers_for_each_object(tmp_path: Path) -> None:
    good, bad = example(tmp_path), tmp_path / "bad.yaml"
    bad.write_text(Path(good).read_text().replace("kind: LLM", "kind: LLMs"))
    result = conch("validate", good, str(bad), cwd=tmp_path)
    assert result.returncode == 1
    assert "local/tiny-chat ok" in result.stdout
    assert "bad.yaml:12: spec.kind: " in result.stderr


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (str(EXAMPLE.parent), "/nowhere", "The folder /nowhere/tiny-chat does not exist"),
        (
            "  replicas:",
            '  tokenizer: {chatTemplate: {inline: "one\\n{% endfor %}"}}\n  replicas:',
            "The chat template in spec.tokenizer.chatTemplate.inline does not compile: line 2: Encountered unknown tag",
        ),
    ],
)
def test_validate_and_up_look_at_folder_and_template(tmp_path: Path, before: str, after: str, says: str) -> None:
    file = example(tmp_path, before, after)
    for command in (("validate", file), ("up", "-f", file)):
        result = conch(*command, cwd=tmp_path)
        assert result.returncode == 1
        assert says in result.stderr


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("{file: none.jinja}", "none.jinja cannot be read"),
        ('{inline: "{% endif %}"}', "spec.tokenizer.chatTemplate.inline does not compile: line 1: Encountered unknown"),
    ],
)
def test_validate_looks_at_the_template_of_a_model_that_is_not_here(tmp_path: Path, template: str, says: str) -> None:
    source = f"huggingFace: {{repo: org/name}}\n  tokenizer: {{chatTemplate: {template}}}"
    file = tmp_path / "models.yaml"
    file.write_text(EXAMPLE.read_text().replace("path: tiny-chat", source))
    result = conch("validate", str(file), cwd=tmp_path)
    assert result.returncode == 1
    assert says in result.stderr


@pytest.mark.parametrize("file", sorted(EXAMPLE.parent.glob("*.yaml")), ids=lambda file: str(file.stem))
def test_an_example_is_valid_as_it_is(tmp_path: Path, file: Path) -> None:
    result = conch("validate", str(file), cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    kinds = file.read_text().count("\nkind: ")
    assert [line.rpartition(" ")[2] for line in result.stdout.splitlines()] == ["ok"] * kinds


def test_validate_knows_what_a_pool_takes_on_a_cluster(tmp_path: Path) -> None:
    example = EXAMPLE.parent / "encoder-pool.yaml"
    result = conch("validate", "--cluster", str(example), cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    file = tmp_path / "models.yaml"
    file.write_text(example.read_text().replace("path: tiny-reranker", "pvc: {claimName: models}"))
    result = conch("validate", "--cluster", str(file), cwd=tmp_path)
    assert result.returncode == 1
    assert "add it to spec.claims of the pool" in result.stderr
    file.write_text(example.read_text().replace("memory: 500Mi", "memory: 500Mi\n  claims: [models]"))
    result = conch("validate", str(file), cwd=tmp_path)
    assert result.returncode == 1
    assert "PersistentVolumeClaims need a cluster" in result.stderr


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("pool: encoders", "pool: nobody"), "spec.placement.pool: no file has an EnginePool local/nobody"),
        (
            ("pool: encoders", "pool: encoders\n    sizeHint: 501Mi"),
            "spec.placement.sizeHint: 501Mi is more than the memory of the EnginePool local/encoders, 500Mi",
        ),
        (("name: tiny-reranker", "name: tiny-classifier"), "local/tiny-classifier is already defined at"),
    ],
    ids=["no such pool", "larger than its pool", "defined twice"],
)
def test_validate_calls_nothing_ok_that_has_a_fault(tmp_path: Path, change: tuple[str, str], says: str) -> None:
    text = (EXAMPLE.parent / "encoder-pool.yaml").read_text().replace("path: ", f"path: {EXAMPLE.parent}/")
    file, (before, after) = tmp_path / "models.yaml", change
    end = len(text) if before.startswith("name") else text.rindex(before)
    file.write_text(text[:end].replace(before, after) + text[end:])
    result = conch("validate", str(file), cwd=tmp_path)
    assert result.returncode == 1
    fault = result.stderr.splitlines()[0]
    assert says in fault
    faulty = fault.partition(": ")[0]
    said_ok = [line.partition(": ")[0] for line in result.stdout.splitlines()]
    assert len(said_ok) == 2
    assert faulty not in said_ok


def test_validate_warns_of_a_name_that_two_models_want(tmp_path: Path) -> None:
    first, second = Path(example(tmp_path)), tmp_path / "second.yaml"
    text = first.read_text().replace("name: tiny-chat", "name: other", 1)
    second.write_text(text.replace("default: true", "default: false"))
    result = conch("validate", str(first), str(second), cwd=tmp_path)
    assert result.returncode == 0
    (warning,) = result.stderr.splitlines()
    assert "second.yaml:7: warning: local/other and local/tiny-chat" in warning
    assert "models.yaml:7) want the name tiny-chat" in warning
    assert warning.endswith("who is served under it keeps it, else the older one gets it")


def test_validate_warns_of_two_defaults_of_one_kind(tmp_path: Path) -> None:
    first, second = Path(example(tmp_path)), tmp_path / "second.yaml"
    second.write_text(first.read_text().replace("name: tiny-chat", "name: other", 1))
    result = conch("validate", str(first), str(second), cwd=tmp_path)
    assert result.returncode == 0
    warning = result.stderr.splitlines()[-1]
    assert "second.yaml:7: warning: local/other and local/tiny-chat (" in warning
    assert warning.endswith("the default for kind LLM; the older one will be: set spec.default to false in one of them")


def test_validate_leaves_a_clusters_folders_alone(tmp_path: Path) -> None:
    result = conch("validate", "--cluster", example(tmp_path, str(EXAMPLE.parent), "nowhere"), cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("folder", ["../nowhere", "/nowhere"])
def test_validate_refuses_a_path_that_leads_out_of_a_clusters_models(tmp_path: Path, folder: str) -> None:
    result = conch("validate", "--cluster", example(tmp_path, str(EXAMPLE.parent), folder), cwd=tmp_path)
    assert result.returncode == 1
    assert "spec.source.path must stay below /models" in result.stderr


def test_validate_refuses_an_address_that_leads_back_on_a_cluster(tmp_path: Path) -> None:
    specs = naming("localhost")
    given = tmp_path / "models.yaml"
    given.write_text(
        "---\n".join(f"{json.dumps(model(spec, f'model-{at}'))}\n" for at, spec in enumerate(specs.values()))
    )
    on_cluster = conch("validate", "--cluster", given.name, cwd=tmp_path)
    said = [f"models.yaml:{1 + 2 * at}: local/model-{at}: {field}: {LEADS_BACK}" for at, field in enumerate(specs)]
    assert (on_cluster.returncode, on_cluster.stdout, on_cluster.stderr.splitlines()) == (1, "", said)
    assert LEADS_BACK not in conch("validate", given.name, cwd=tmp_path).stderr


def test_an_older_file_is_converted_to_what_validates(tmp_path: Path) -> None:
    older = tmp_path / "model_config.json"
    entry = {"name": "chatglm2-6b", "url": f"127.0.0.1:{free_port()}", "path": "chatglm2"}
    older.write_text(json.dumps({"llm": [entry], "model_infos": [{"name": "chatglm2-6b", "temperature": 0.8}]}))
    converted = conch("convert", older.name, cwd=tmp_path)
    (tmp_path / "models.yaml").write_text(converted.stdout)
    shutil.copytree(EXAMPLE.parent / "tiny-chat", tmp_path / "chatglm2")
    result = conch("validate", "models.yaml", cwd=tmp_path)
    assert (converted.returncode, result.returncode) == (0, 0)
    assert result.stdout == "models.yaml:1: local/chatglm2-6b ok\n"


def test_ctrl_c_while_it_is_loaded_leaves_no_stack(tmp_path: Path) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "conch_operator.cli", "up", "-f", example(tmp_path)]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.endswith("conch_contracts.names\n"):  # one of the first of hundreds
                break
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    assert process.returncode == 130
    assert "Traceback" not in rest
