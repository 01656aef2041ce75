"""Run by `make soak` only, because it takes minutes: a hundred encoders under `conch up`, and memory for ten.

Clients ask for them by Zipf's law. No request fails or waits longer than it may, and the models' processes never hold
more memory than the pool has. CONCH_TEST_ENCODERS says how many there are, CONCH_TEST_TABLE where the table of the
figures is written.
"""

import json
import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles

import psutil
import pytest

from testkit.processes.conch_up import ConchUp, wait_until

from .test_engine_pools import EXAMPLES, ask, loaded, model, ready

COUNT = int(os.environ.get("CONCH_TEST_ENCODERS", "100"))  # noqa: TID251
TABLE = os.environ.get("CONCH_TEST_TABLE")  # noqa: TID251
MEMORY_MIB = 560
"""Room for ten of them, as they are measured."""
MEASURED = 1.05
"""By how much processes may be larger together than they were measured: smaller changes are not taken over."""
MAX_WAIT_S, MIN_RESIDENT_S = 0.5, 1.0
CLIENTS, EACH, PAUSE_S = 4, 75, 0.5
"""Clients, how often each asks, and how long it pauses before it does."""
ALONE = 8
"""Models that are not loaded, and are asked for while nobody else asks: how long a change takes."""
POOL = f"""apiVersion: conch.dev/v1alpha1
kind: EnginePool
metadata: {{name: encoders}}
spec: {{memory: {MEMORY_MIB}Mi, minResident: {MIN_RESIDENT_S:g}s, maxWait: {MAX_WAIT_S * 1000:g}ms}}
"""
SERVER, STUB = "tritonserver", "triton_python"
NAMES = [f"encoder-{index}" for index in range(COUNT)]


@dataclass
class Watch:
    """Looks again and again at the processes of the models that are loaded."""

    conch: ConchUp
    most: int = 0
    most_mib: float = 0.0
    _over: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Look until `end`."""
        while not self._over.wait(0.1):
            self.most, self.most_mib = max(self.most, len(loaded(self.conch))), max(self.most_mib, self.held_mib(STUB))

    def end(self) -> None:
        """Look no more."""
        self._over.set()

    def held_mib(self, name: str) -> float:
        """Return what all processes of a name hold together, of what they share their share."""
        held = 0
        for process in self.conch.processes():
            with suppress(psutil.NoSuchProcess):
                if process.name().startswith(name):
                    held += process.memory_full_info().pss
        return held / 2**20


@pytest.fixture(scope="module")
def conch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConchUp]:
    folder = tmp_path_factory.mktemp("hundred")
    file = folder / "models.yaml"
    file.write_text("".join([POOL, *(model(name, EXAMPLES / "tiny-reranker") for name in NAMES)]))
    running = ConchUp(folder / "state", file)
    running.start()
    try:
        wait_until(lambda: len(ready(running)) == COUNT, "every model loaded once", 10.0 * COUNT, interval_s=2)
        yield running
    finally:
        running.stop()


def answered(conch: ConchUp, count: int) -> tuple[list[float], list[float]]:
    """Return the seconds that requests took which found their model loaded, and of those that were held for it."""

    def lines() -> list[bytes]:
        written = (conch.state / "logs" / "gateway.log").read_bytes().splitlines(keepends=True)
        return [line for line in written if b'"path":"/v1/rerank"' in line and line.endswith(b"\n")]

    wait_until(lambda: len(lines()) == count, "a line in the log for each request")
    found, held = list[float](), list[float]()
    for line in lines():
        said = json.loads(line)
        (held if "held_ms" in said else found).append(said["ms"] / 1000)
    return found, held


def test_a_hundred_encoders_take_turns_and_no_request_fails(conch: ConchUp) -> None:
    watch = Watch(conch)
    server_mib = watch.held_mib(SERVER)
    watching = threading.Thread(target=watch.run)
    watching.start()
    try:
        for name in NAMES[:ALONE]:  # those that were made last are loaded, and few of these
            ask(conch, name)
        _, changes = answered(conch, ALONE)
        faults = zipf(conch)
    finally:
        watch.end()
        watching.join()
    assert faults == []
    found, held = answered(conch, ALONE + CLIENTS * EACH)
    # The room is free after the first two. The change itself takes twice as long as alone: beside the other clients'.
    longest_s = MAX_WAIT_S + MIN_RESIDENT_S + 2 * max(changes)
    report(watch, changes, found, held, longest_s)
    print(f"the server itself: {server_mib:.0f} MiB before and {watch.held_mib(SERVER):.0f} MiB after all these loads")
    assert max(held) <= longest_s
    assert watch.most_mib <= MEMORY_MIB * MEASURED


def zipf(conch: ConchUp) -> list[str]:
    """Let the clients ask; return what went wrong."""
    faults = list[str]()
    popular = [1 / rank for rank in range(1, COUNT + 1)]

    def client(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(EACH):
            time.sleep(chance.expovariate(1 / PAUSE_S))
            name = chance.choices(NAMES, popular)[0]
            try:
                assert len(ask(conch, name)) == 2
            except OSError as error:
                faults.append(f"{name}: {error}")

    clients = [threading.Thread(target=client, args=(seed,)) for seed in range(CLIENTS)]
    for one in clients:
        one.start()
    for one in clients:
        one.join()
    return faults


def report(watch: Watch, changes: list[float], found: list[float], held: list[float], longest_s: float) -> None:
    share = 100 * len(found) / (len(found) + len(held))
    rows = (
        (
            f"requests of {CLIENTS} clients for {COUNT} models, by Zipf's law",
            f"{CLIENTS * EACH}",
            "",
        ),
        ("their model was loaded", f"{share:.0f} %", ""),
        ("then they took, median and 99 of 100", f"{median(found) * 1000:.0f} and {p99(found) * 1000:.0f} ms", ""),
        ("the others took, median and 99 of 100", f"{median(held):.1f} and {p99(held):.1f} s", ""),
        ("the longest of them", f"{max(held):.1f} s", f"{longest_s:.1f} s"),
        ("a change of models while nobody else asked, median and longest", spread(changes), ""),
        ("models that were loaded at one time", f"{watch.most}", ""),
        ("memory of their processes (PSS)", f"{watch.most_mib:.0f} MiB", f"{MEMORY_MIB * MEASURED:.0f} MiB"),
    )
    for what, figure, most in rows:
        print(f"{what}: {figure} {most and f'(at most {most})'}")
    if TABLE:
        Path(TABLE).write_text("".join(f"| {what} | {figure} | {most} |\n" for what, figure, most in rows))


def p99(values: list[float]) -> float:
    return quantiles(values, n=100, method="inclusive")[-1]


def spread(values: list[float]) -> str:
    return f"{median(values):.1f} and {max(values):.1f} s"
