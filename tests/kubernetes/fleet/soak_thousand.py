"""Run by `make soak` only: a thousand models under one operator and one gateway, four fifths of them at rest.

KWOK plays nodes and pods, so it needs a network of its own (`hack/soak` sees to that). CONCH_TEST_MODELS says how many
models there are, CONCH_TEST_TABLE where the table of the figures is written.
"""

import asyncio
import os
import random
import time
from contextlib import closing
from pathlib import Path
from statistics import median

import psutil
import pytest

from testkit.fleet.api import Object
from testkit.fleet.few_models import cpu_us, gateway_with_few
from testkit.fleet.measures import (
    Client,
    after_ready_s,
    cpu_share,
    is_ready,
    peak_mib,
    percentile,
    rests,
    seconds_until,
    seconds_until_served,
    shown,
    wakes,
)
from testkit.fleet.world import NAMESPACE, Fleet, fleet

COUNT = int(os.environ.get("CONCH_TEST_MODELS", "1000"))  # noqa: TID251
TABLE = os.environ.get("CONCH_TEST_TABLE")  # noqa: TID251
AWAKE = COUNT // 5
CHANGES = min(100, COUNT - 1)
WAKES = min(150, (COUNT - AWAKE) // 2)
ASKED = min(150, (COUNT - AWAKE) // 2)
SETTLE_S = 15.0
QUIET_S = 60.0
LIMIT_S = 900.0

SETTLED_S = 120.0
IDLE_S = max(10.0, SETTLED_S * COUNT / 1000)
"""So none goes to rest while others still come."""
SERVED_S = 1.0
WISH_S = 0.2
FIRST_BYTE_S = 0.15
OPERATOR_MIB = 500.0
GATEWAY_MIB = 120.0
CPU_RATIO = 1.1
"""Of a request with all models to one with ten; more than noise."""
STORM_S = 60.0


def name_of(number: int) -> str:
    return f"m-{number:04}"


def model(number: int) -> Object:
    name = name_of(number)
    spec = {
        "kind": "LLM",
        "servedNames": [name, "tiny-chat"] if number == 0 else [name],
        "source": {"path": "tiny-chat"},
        "engine": {"cpu": {}},
    }
    if number >= AWAKE:
        spec["scaling"] = {"minReplicas": 0, "maxReplicas": 1, "idleAfter": f"{IDLE_S:.0f}s"}
    return {
        "apiVersion": "conch.dev/v1alpha1",
        "kind": "ModelDeployment",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": spec,
    }


class Report:
    """The figures as they come."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.rows: list[tuple[str, str, str]] = []
        self.missed: list[str] = []

    def tell(self, text: str) -> None:
        """Say how far it is."""
        with self._capsys.disabled():
            print(text, flush=True)

    def note(self, what: str, figure: str, most: str = "", *, holds: bool = True) -> None:
        """Keep a figure, and whether it is within its bound; what is missed is bold in the table."""
        self.rows.append((what, figure if holds else f"**{figure}**", most))
        self.missed += [] if holds else [what]
        self.tell(f"| {what} | {figure} | {most} |{'' if holds else ' MISSED'}")

    def note_times(self, what: str, times: list[float], most_s: float) -> None:
        """Keep how long something took each time; the bound is for the 99th percentile."""
        figure = f"{shown(times)} (median, p99, most)"
        self.note(what, figure, f"{most_s * 1e3:.0f} ms p99", holds=percentile(times, 0.99) <= most_s)

    def note_most(self, what: str, figure: float, unit: str, most: float) -> None:
        """Keep a figure that has an upper bound."""
        self.note(what, f"{figure:.0f} {unit}", f"{most:.0f} {unit}", holds=figure <= most)


def test_a_thousand_models_cost_no_more_than_they_may(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = Report(capsys)
    with fleet(tmp_path, [name_of(number) for number in range(COUNT)]) as found:
        psutil.cpu_times_percent()  # from here on the next look counts
        settle(found, report)
        look_at_rest(found, report)
        with closing(Client(found.services["gateway"])) as client:
            report.note_times(f"{CHANGES} changes are served after", changes_s(found, client), SERVED_S)
            asleep = [name_of(number) for number in random.Random(1).sample(range(AWAKE, COUNT), WAKES + ASKED)]
            wishes = [told - asked for asked, told in wakes(client, asleep[:WAKES], found.audit, pause_s=0.3)]
            report.note_times(f"{WAKES} wishes, until the scale call", wishes, WISH_S)
            answers = after_ready_s(found, client, asleep[WAKES:])
            report.note_times(f"{ASKED} held requests are answered after their engine's start", answers, FIRST_BYTE_S)
        asyncio.run(compare_cpu(found, report, tmp_path))
        wake_all(found, report)
        for name, most in (("operator", OPERATOR_MIB), ("gateway", GATEWAY_MIB)):
            process = found.operator if name == "operator" else found.services[name]
            report.note_most(f"the {name}'s memory, at its most", peak_mib(process), "MiB", most)
        given = psutil.cpu_times_percent().steal
        report.note("of the processors' time the machine's host gave to others", f"{given:.1f}%")
    if TABLE:
        Path(TABLE).write_text("".join(f"| {what} | {figure} | {most} |\n" for what, figure, most in report.rows))
    assert report.missed == []


def settle(found: Fleet, report: Report) -> None:
    """Make all models, and wait until they serve and those that may rest do."""
    began = time.monotonic()
    found.api.create_all(found.path, [model(number) for number in range(COUNT)])
    report.tell(f"{COUNT} models were made in {time.monotonic() - began:.0f} s")
    settled_s = seconds_until(found, is_ready, COUNT, began, report.tell, LIMIT_S)
    report.note_most(f"{COUNT} models are settled after", settled_s, "s", SETTLED_S)
    resting_s = seconds_until(found, rests, COUNT - AWAKE, began, report.tell, LIMIT_S)
    report.note(f"{COUNT - AWAKE} of them have come to rest after", f"{resting_s:.0f} s")


def look_at_rest(found: Fleet, report: Report) -> None:
    """Count what is written while nothing happens, and what the processes take for it."""
    time.sleep(SETTLE_S)
    before, revision = len(list(found.audit.writes())), _revision(found)
    shares = cpu_share([found.operator, found.services["gateway"]], QUIET_S)
    later = list(found.audit.writes())[before:]
    for write in later[:5]:
        report.tell(str(write))
    count = len(later) + (_revision(found) != revision)
    report.note(f"writes to API server and registry in {QUIET_S:.0f} s at rest", str(count), "0", holds=count == 0)
    report.note("operator and gateway at rest, of one core", f"{shares[0]:.1%}, {shares[1]:.1%}")


async def compare_cpu(found: Fleet, report: Report, folder: Path) -> None:
    """Compare the gateway with one that knows ten models, in turns."""
    async with gateway_with_few(found, 10, folder / "few") as few:
        with_few, with_all = await cpu_us(found, few, folder, pairs=17, seconds=1.3)
    ratio = median(with_all) / median(with_few)
    figure = f"{median(with_few):.0f} and {median(with_all):.0f} µs: {ratio:.2f} times"
    bound = f"{CPU_RATIO:.1f} times"
    report.note("the gateway's CPU per request with ten models and all", figure, bound, holds=ratio <= CPU_RATIO)


def wake_all(found: Fleet, report: Report) -> None:
    """Wake all models that rest, one right after the other."""
    seconds_until(found, rests, COUNT - AWAKE, time.monotonic(), report.tell, LIMIT_S)
    names = [name_of(number) for number in range(AWAKE, COUNT)]
    began = time.monotonic()
    with closing(Client(found.services["gateway"])) as client:
        asked, told = zip(*wakes(client, names, found.audit, pause_s=0.0, for_s=600), strict=True)
    storm = f"{len(names)} models are woken at once: from the first wish to the last scale call"
    report.note_most(storm, max(told) - min(asked), "s", STORM_S)
    awake_s = seconds_until(found, lambda one: one["status"]["readyReplicas"] == 1, COUNT, began, report.tell, LIMIT_S)
    report.note("and all have an engine that answers after", f"{awake_s:.0f} s")


def changes_s(found: Fleet, client: Client) -> list[float]:
    """Return how long changes of models took, one after the other, of all sorts of models."""
    chosen = random.Random(0).sample(range(1, COUNT), CHANGES)
    return [
        seconds_until_served(found, client, name_of(number), f"{name_of(number)}-too", awake=number < AWAKE)
        for number in chosen
    ]


def _revision(found: Fleet) -> bytes:
    return found.redis.command("HGET", "conch:1:meta", "revision")
