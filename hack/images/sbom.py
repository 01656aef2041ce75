"""Writes the image's bill of materials: every Python and Debian package in it, as CycloneDX 1.5 JSON.

It runs inside the image while that is built, and reads what the package tools themselves recorded.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path

_TARGET = Path("/usr/share/sbom/image.cdx.json")

Component = dict[str, object]


def main(subject: str) -> None:
    """Write the bill of the image whose main package is `subject`."""
    components = sorted([*_python(), *_debian()], key=lambda component: str(component["purl"]))
    (root,) = (component for component in components if component["name"] == subject)
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {**root, "type": "container"}},
        "components": components,
    }
    _TARGET.parent.mkdir(parents=True, exist_ok=True)
    _TARGET.write_text(json.dumps(bill, indent=1) + "\n", encoding="utf-8")


def _python() -> Iterator[Component]:
    for distribution in distributions():
        name, version = distribution.metadata["Name"], distribution.version
        licence, *_ = distribution.metadata.get_all("License-Expression") or [None]
        yield _component(name, version, f"pkg:pypi/{name.lower().replace('_', '-')}@{version}", licence)


def _debian() -> Iterator[Component]:
    listed = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Package}\t${Version}\t${Architecture}\n"],
        check=True,
        capture_output=True,
        text=True,
    )
    for line in listed.stdout.splitlines():
        name, version, architecture = line.split("\t")
        yield _component(name, version, f"pkg:deb/debian/{name}@{version}?arch={architecture}", None)


def _component(name: str, version: str, purl: str, licence: str | None) -> Component:
    component: Component = {"type": "library", "name": name, "version": version, "purl": purl}
    return component | ({"licenses": [{"expression": licence}]} if licence else {})


if __name__ == "__main__":
    main(*sys.argv[1:])
