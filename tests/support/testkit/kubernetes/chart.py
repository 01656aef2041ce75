"""The rendered chart as objects, and the pods in it wherever they hide."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from generate.helm import CHART, Helm

Object = dict[str, Any]
IMAGES = ("--set", "images.prefix=registry.example.com/conch")
"""What every render needs, since nobody publishes images of Conch."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """All objects of one release."""

    objects: Sequence[Object]

    def of(self, kind: str) -> list[Object]:
        """Return the objects of one kind."""
        return [found for found in self.objects if found["kind"] == kind]

    def one(self, kind: str, name: str) -> Object:
        """Return one object."""
        (found,) = [found for found in self.of(kind) if found["metadata"]["name"] == name]
        return found

    def operator_settings(self) -> Object:
        """Return what the operator is told."""
        (text,) = [found["data"]["settings.yaml"] for found in self.of("ConfigMap") if "settings.yaml" in found["data"]]
        settings: Object = yaml.safe_load(text)
        return settings

    def workloads(self) -> Iterator[Object]:
        """Give everything that makes pods, the workers of the operator included."""
        yield from self.of("Deployment")
        yield from (pool["objects"]["deployment"] for pool in self.operator_settings()["workerPools"].values())

    def pods(self) -> dict[str, Object]:
        """Return the labels and spec of every pod, by the name of what makes it."""
        made = {found["metadata"]["name"]: found["spec"]["template"] for found in self.workloads()}
        return made | {found["metadata"]["name"]: found for found in self.of("Pod")}

    def containers(self) -> dict[str, Object]:
        """Return every container, by `<workload>/<container>`."""
        return {
            f"{name}/{container['name']}": container
            for name, pod in self.pods().items()
            for container in pod["spec"].get("initContainers", []) + pod["spec"]["containers"]
        }


def render(helm: Helm, *options: str | Path) -> Rendered:
    """Render the chart with these options of helm."""
    return Rendered([found for found in yaml.safe_load_all(helm.template(*IMAGES, *options)) if found])


def environment(container: Object) -> dict[str, Any]:
    """Return a container's variables: values as text, references as objects."""
    return {variable["name"]: variable.get("value", variable.get("valueFrom")) for variable in container["env"]}


def default_values() -> Object:
    """Return the chart's own values."""
    values: Object = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    return values
