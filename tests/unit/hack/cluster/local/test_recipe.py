"""The build of the node's binaries, with a Go and a C compiler that only make files."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

_RECIPE = Path(__file__).parents[5] / "hack" / "cluster" / "local" / "recipe" / "build"
_GO = """#!/bin/bash
case "$1 $2" in
  "env GOMODCACHE") echo "$GOMODCACHE";;
  "mod download") mkdir -p "$GOMODCACHE/$3/cmd"; touch "$GOMODCACHE/$3/go.mod";;
  "list -m") echo v0.37.0;;
  build*)
    echo "$@" >> "$GOMODCACHE/builds"
    while [ "$1" != -o ]; do shift; done
    echo "$(basename "$2")" >> "$GOMODCACHE/built"
    for i in $(seq 250); do echo "k8s.io/package/$i" >&2; done
    if [ -e "$GOMODCACHE/hang" ] && [[ $2 = */coredns.new ]]; then touch "$GOMODCACHE/hangs"; exec sleep 600; fi
    touch "$2";;
esac
"""
_CC = '#!/bin/bash\nwhile [ "$1" != -o ]; do shift; done\ntouch "$2"\n'


class Build:
    def __init__(self, folder: Path) -> None:
        self.out, self.cache, self.temporary = folder / "out", folder / "cache", folder / "tmp"
        tools = folder / "tools"
        for made in (self.cache, self.temporary, tools):
            made.mkdir()
        for name, text in (("go", _GO), ("cc", _CC)):
            (tools / name).write_text(text)
            (tools / name).chmod(0o755)
        self._environ = {"PATH": f"{tools}:/usr/bin:/bin", "GOMODCACHE": str(self.cache), "TMPDIR": str(self.temporary)}

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [_RECIPE, self.out], env=self._environ, stderr=subprocess.PIPE, text=True, process_group=0
        )

    def run(self) -> str:
        process = self.start()
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said
        return said

    def names(self) -> list[str]:
        return sorted(path.name for path in self.out.iterdir())

    def built(self) -> list[str]:
        return (self.cache / "built").read_text().split()


@pytest.fixture
def build(tmp_path: Path) -> Build:
    return Build(tmp_path)


def test_it_says_how_far_it_is_and_leaves_nothing_but_the_binaries(build: Build) -> None:
    said = build.run()
    assert "[cluster] 1/5 kube is built." in said
    assert "[cluster] kube: 200 packages built" in said
    assert build.names() == ["coredns", "helm", "kube", "pause", "traefik"]
    assert list(build.temporary.iterdir()) == []


def test_helm_is_for_the_kubernetes_of_its_client(build: Build) -> None:
    build.run()
    (helm,) = [line for line in (build.cache / "builds").read_text().splitlines() if line.endswith("./cmd/helm")]
    assert re.findall(r"helm\.sh/helm/v3/pkg/(\S+)", helm) == [
        "chartutil.k8sVersionMajor=1",
        "chartutil.k8sVersionMinor=37",
        "lint/rules.k8sVersionMajor=1",
        "lint/rules.k8sVersionMinor=37",
    ]


@pytest.mark.parametrize("whole_group", [True, False], ids=["ctrl-c", "one process"])
def test_a_build_that_was_ended_goes_on_where_it_was(build: Build, whole_group: bool) -> None:
    (build.cache / "hang").touch()
    process = build.start()
    deadline = time.monotonic() + 60
    while not (build.cache / "hangs").exists():
        assert time.monotonic() < deadline, "no build of coredns"
        time.sleep(0.02)
    if whole_group:
        os.killpg(process.pid, signal.SIGTERM)
    else:
        process.terminate()
    process.communicate(timeout=30)
    assert process.returncode == 143
    assert build.names() == ["kube"]
    assert list(build.temporary.iterdir()) == []
    (build.cache / "hang").unlink()
    assert "1/5 kube is there already." in build.run()
    assert build.built().count("kube.new") == 1
    assert build.names() == ["coredns", "helm", "kube", "pause", "traefik"]
