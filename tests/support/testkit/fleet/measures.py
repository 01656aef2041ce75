"""What is measured of Conch beside a played cluster, each as the figures that it gives."""

import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

from bench.cpu_time import process_seconds

from conch_contracts.names import MODEL_LABEL
from testkit.fleet.api import Audit, Object
from testkit.fleet.world import NAMESPACE, Fleet
from testkit.kubernetes.operator_process import Process

TELL_S = 4.0
"""Between two words about how far all models are."""
_LOOK_S = 1.0
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


class Client:
    """A client of one gateway, on one connection."""

    def __init__(self, gateway: Process) -> None:
        address = urlsplit(gateway.url())
        assert address.hostname is not None
        self._connection = HTTPConnection(address.hostname, address.port, timeout=60)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        """Make a request; return the status and the body."""
        data = None if body is None else json.dumps(body)
        self._connection.request(method, path, data, {"content-type": "application/json"})
        answer = self._connection.getresponse()
        return answer.status, answer.read()

    def chat(self, model: str) -> tuple[int, bytes]:
        """Ask a model for one token; return the status and the body."""
        question = {"role": "user", "content": "Hello!"}
        return self.ask("POST", "/v1/chat/completions", {"model": model, "messages": [question], "max_tokens": 1})


def condition(item: Object, kind: str = "Ready") -> Object:
    """Return one condition of a model that is about its spec as it is now, empty before there is one."""
    status: Object = item.get("status", {})
    if status.get("observedGeneration") != item["metadata"]["generation"]:
        return {}
    return next((one for one in status["conditions"] if one["type"] == kind), {})


def is_ready(item: Object) -> bool:
    """Return whether a model serves, or would for a request."""
    return condition(item).get("status") == "True"


def rests(item: Object) -> bool:
    """Return whether a model serves and has no engine."""
    return is_ready(item) and condition(item)["reason"] == "ScaledToZero" and item["status"]["replicas"] == 0


def seconds_until(
    fleet: Fleet, what: Callable[[Object], bool], count: int, began: float, tell: Callable[[str], None], limit_s: float
) -> float:
    """Return how long after `began` so many models were as asked; an AssertionError names what is not, in the end."""
    told_s = 0.0
    while True:
        models = fleet.models.all()
        now = time.monotonic() - began
        found = sum(map(what, models))
        if found >= count or now - told_s >= TELL_S:
            told_s = now
            tell(
                f"{now:.0f} s: {sum(map(is_ready, models))} ready, {sum(map(rests, models))} at rest, {found} as asked"
            )
        if found >= count:
            return now
        assert now < limit_s, [(one["metadata"]["name"], condition(one)) for one in models if not what(one)][:3]
        time.sleep(_LOOK_S)


def seconds_until_served(fleet: Fleet, client: Client, name: str, alias: str, *, awake: bool) -> float:
    """Give a model one more name; return how long it took until the gateway served it by that."""
    began = time.perf_counter()
    fleet.api.merge(f"{fleet.path}/{name}", {"spec": {"servedNames": [name, alias]}})
    while True:
        status, said = client.chat(alias) if awake else client.ask("GET", f"/v1/models/{alias}")
        if status == 200:
            return time.perf_counter() - began
        assert status == 404, f"{alias}: {status} {said!r}"
        assert time.perf_counter() - began < 60, f"{alias} is not served"
        time.sleep(0.005)


def wakes(
    client: Client, names: Sequence[str], audit: Audit, pause_s: float, for_s: int = 60
) -> list[tuple[float, float]]:
    """Call for models that rest, one after the other.

    Return when each was called for, and when the API server was told to scale it, as Unix times in seconds.
    """
    asked = {}
    for name in names:
        asked[f"{name}-engine"] = time.time()
        status, said = client.ask("POST", f"/conch/v1/models/{name}/wake", {"for_s": for_s})
        assert status == 202, said
        time.sleep(pause_s)
    deadline = time.monotonic() + 120
    while True:
        told: dict[str, float] = {}
        for write in audit.writes():
            if write.resource == "deployments" and write.at_s >= asked.get(write.name, float("inf")):
                told.setdefault(write.name, write.at_s)
        if told.keys() == asked.keys():
            return [(asked[name], told[name]) for name in asked]
        assert time.monotonic() < deadline, f"not told: {sorted(asked.keys() - told.keys())[:5]}"
        time.sleep(1)


def after_ready_s(fleet: Fleet, client: Client, names: Sequence[str]) -> list[float]:
    """Ask models that rest, one after the other; return how long after its engine's start each had answered."""
    found = []
    with ThreadPoolExecutor(1) as watching:
        for name in names:
            ready = watching.submit(fleet.api.moment_of, _PODS, _is_started, labelSelector=f"{MODEL_LABEL}={name}")
            status, said = client.chat(name)
            assert status == 200, f"{name}: {status} {said!r}"
            found.append(time.perf_counter() - ready.result())
    return found


def _is_started(pod: Object) -> bool:
    if "deletionTimestamp" in pod["metadata"]:  # the one before, which has not gone yet
        return False
    conditions = pod.get("status", {}).get("conditions", ())
    return any((one["type"], one["status"]) == ("ContainersReady", "True") for one in conditions)


def peak_mib(process: Process) -> float:
    """Return the most memory that a process has ever had resident."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def cpu_share(processes: Sequence[Process], seconds: float) -> list[float]:
    """Return which part of one core each process takes for so long."""
    before = [process_seconds(process.pid) for process in processes]
    began = time.perf_counter()
    time.sleep(seconds)
    took = time.perf_counter() - began
    return [(process_seconds(process.pid) - start) / took for process, start in zip(processes, before, strict=True)]


def percentile(values: Sequence[float], part: float) -> float:
    """Return the value that so large a part of all is not above."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def shown(values: Sequence[float]) -> str:
    """Return median, 99th percentile and maximum in milliseconds."""
    return f"{median(values) * 1e3:.0f} / {percentile(values, 0.99) * 1e3:.0f} / {max(values) * 1e3:.0f} ms"
