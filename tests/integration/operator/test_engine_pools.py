"""Six encoders under `conch up` take turns in one real Triton server that has room for two."""

import json
import random
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import psutil
import pytest

from testkit.processes.conch_up import EXAMPLE, ConchUp, wait_until

from .test_up import status

EXAMPLES = EXAMPLE.parent
COUNT, ROOM = 6, 2
CLIENTS, REQUESTS = 3, 8
BROKEN = "broken"
POOL = f"""apiVersion: conch.dev/v1alpha1
kind: EnginePool
metadata: {{name: encoders}}
spec: {{memory: 2Gi, maxModels: {ROOM}, minResident: 1s, maxWait: 500ms}}
"""


def model(name: str, folder: Path) -> str:
    spec = f"spec: {{kind: Rerank, source: {{path: {folder}}}, engine: {{cpu: {{}}}}, placement: {{pool: encoders}}}}"
    return f"---\napiVersion: conch.dev/v1alpha1\nkind: ModelDeployment\nmetadata: {{name: {name}}}\n{spec}\n"


NAMES = [f"encoder-{index}" for index in range(COUNT)]


@pytest.fixture(scope="module")
def conch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConchUp]:
    tmp_path = tmp_path_factory.mktemp("pool")
    broken = tmp_path / BROKEN
    broken.mkdir()
    for file in (EXAMPLES / "tiny-reranker").iterdir():
        (broken / file.name).write_bytes(file.read_bytes() if file.suffix != ".onnx" else b"no graph")
    file = tmp_path / "models.yaml"
    good = [model(name, EXAMPLES / "tiny-reranker") for name in NAMES]
    file.write_text("".join([POOL, model(BROKEN, broken), *good]))
    running = ConchUp(tmp_path / "state", file)
    running.start()
    try:
        wait_until(lambda: len(ready(running)) == COUNT, "every good model loaded once", 300, interval_s=1)
        yield running
    finally:
        running.stop()


def ready(conch: ConchUp) -> set[str]:
    found = set()
    for one in status(conch).get("models", []):
        condition = next((said for said in one["conditions"] if said["type"] == "Ready"), None)
        if condition is not None and condition["status"] == "True":
            found.add(one["modelId"].partition("/")[2])
    return found


def ask(conch: ConchUp, name: str) -> list[float]:
    body = {"model": name, "query": "What do cats eat?", "documents": ["Cats eat fish.", "Tax is due in May."]}
    request = Request(f"{conch.base_url}/rerank", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urlopen(request, timeout=120) as answer:
        return [round(row["relevance_score"], 4) for row in json.load(answer)["results"]]


def loaded(conch: ConchUp) -> list[str]:
    """Return the models that are loaded, as the processes show."""
    found = []
    for process in conch.processes():
        with suppress(psutil.NoSuchProcess):
            command = process.cmdline()
            if len(command) > 1 and command[0].endswith("triton_python_backend_stub"):
                found.append(Path(command[1]).parents[1].name)
    return found


def test_all_are_served_by_one_server_in_the_room_of_two_and_no_request_fails(conch: ConchUp) -> None:
    servers = conch.named("tritonserver")
    assert len(servers) == 1
    answers, faults, most = list[list[float]](), list[str](), list[str]()
    popular = [1 / rank for rank in range(1, COUNT + 1)]

    def client(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(REQUESTS):
            name = chance.choices(NAMES, popular)[0]
            try:
                answers.append(ask(conch, name))
            except OSError as error:
                faults.append(f"{name}: {error}")

    clients = [threading.Thread(target=client, args=(seed,)) for seed in range(CLIENTS)]
    for one in clients:
        one.start()
    while any(one.is_alive() for one in clients):
        most = max(most, loaded(conch), key=len)
        time.sleep(0.05)
    assert faults == []
    assert answers == [answers[0]] * (CLIENTS * REQUESTS)
    assert 1 < len(most) <= ROOM, most


def test_a_model_that_cannot_be_loaded_is_alone_in_that(conch: ConchUp) -> None:
    with pytest.raises(HTTPError) as caught:
        ask(conch, BROKEN)
    with caught.value as refused:
        assert refused.code == 503
    said = next(one for one in status(conch)["models"] if one["modelId"].endswith(BROKEN))
    condition = next(one for one in said["conditions"] if one["type"] == "Ready")
    assert condition["reason"] == "EngineLoadFailed"
    assert "Triton could not load" in condition["message"]
    assert ready(conch) == set(NAMES)


def test_a_killed_server_comes_back_with_its_models_and_no_request_fails(conch: ConchUp) -> None:
    assert ask(conch, NAMES[0])
    conch.named("tritonserver")[0].kill()
    for name in (NAMES[0], NAMES[-1]):
        assert ask(conch, name)


def test_a_killed_model_is_loaded_again(conch: ConchUp) -> None:
    assert ask(conch, NAMES[3])
    marker = f"/{NAMES[3]}-"
    conch.process(marker).kill()
    assert ask(conch, NAMES[3])
