"""Command line: builds images, prints their names on stdout and its progress on stderr.

Variables: CONCH_IMAGE_PREFIX (default conch.test), CONCH_IMAGE_VERSION (default `dev-` and a digest of what the images
are made of), CONCH_IMAGE_TOOL (docker, podman or buildah), CONCH_IMAGE_BASE (the Dockerfile's BASE),
CONCH_DEBIAN_MIRROR (for a base that is made, not pulled), CONCH_IMAGE_SPEECH_EXTRAS (of the speech-worker's
distribution, such as containers).
"""

import argparse
import fcntl
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path

from images import base_image, pip_settings, source_version
from images.build_tools import BuildFailed, Recipe, Tool, find_tool
from images.chart_values import chart_values
from images.image_names import NAMES, Image, Naming
from images.registry_check import check_answers, registry_of

_ROOT = Path(__file__).resolve().parents[2]
_LOCK = _ROOT / ".conch" / "images.lock"
_SHARED = ("code", "runtime")
"""The Dockerfile's stages that every image comes from."""
_SIDE_BY_SIDE = 2
"""A build waits for its disk as long as for its processor."""
_LOOK_S = 0.5
"""How soon a signal is heard that came just before a wait for a thread began."""


def main() -> int:
    """Build what the command line names."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that temporary files are removed
    arguments = _arguments()
    environ = os.environ  # noqa: TID251 - the one place that reads it
    naming = Naming.from_environ(environ, _ROOT)
    try:
        if arguments.push and (registry := registry_of(naming.prefix)) is not None:
            check_answers(registry)
        tool = find_tool(environ.get("CONCH_IMAGE_TOOL"))
        chosen = base_image.choose(tool, environ.get("CONCH_IMAGE_BASE"), mirror=environ.get("CONCH_DEBIAN_MIRROR"))
        with tempfile.TemporaryDirectory(prefix="conch-images-") as folder:
            recipe = Recipe(
                context=_ROOT,
                base=chosen,
                version=naming.version,
                revision=source_version.revision(_ROOT),
                secrets=pip_settings.write(Path(folder), environ),
                speech_extras=naming.speech_extras,
            )
            images = [naming.image(name) for name in arguments.names or NAMES]
            with _alone():
                _build_all(tool, recipe, images)
            if arguments.push:
                _push_all(tool, naming, images, arguments.push)
    except BuildFailed as error:
        sys.stderr.write(f"images: {error}\n")
        return 1
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="hack/images/build", description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(NAMES)}; all of them without one")
    parser.add_argument(
        "--push", type=Path, metavar="FILE", help="bring the images to their registry, and write FILE, values for helm"
    )
    arguments = parser.parse_args()
    if arguments.push and not os.environ.get("CONCH_IMAGE_PREFIX"):  # noqa: TID251 - the command line's other half
        parser.error("--push needs CONCH_IMAGE_PREFIX, the registry and folder to push to")
    if unknown := set(arguments.names) - set(NAMES):
        parser.error(f"no such image: {', '.join(sorted(unknown))}")
    return arguments


@contextmanager
def _alone() -> Iterator[None]:
    """Wait until no other build of this checkout runs: each would build what they share."""
    _LOCK.parent.mkdir(exist_ok=True)
    with _LOCK.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.stderr.write("[images] Another build of this checkout runs; this one waits for its end.\n")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build_all(tool: Tool, recipe: Recipe, images: Sequence[Image]) -> None:
    """Build first what they share, so that it is built once, then the images side by side."""
    for stage in _SHARED:
        sys.stderr.write(f"[images] The stage {stage}, which all images share, is being built.\n")
        tool.build_stage(recipe, stage)
    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        started = [pool.submit(_build, tool, recipe, image) for image in images]
        try:
            for build in started:
                while not build.done():
                    wait([build], timeout=_LOOK_S)
                build.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            tool.close()
            raise


def _build(tool: Tool, recipe: Recipe, image: Image) -> None:
    began = time.monotonic()
    sys.stderr.write(f"[images] {image.reference} is being built.\n")
    tool.build(recipe, image)
    sys.stderr.write(f"[images] {image.reference} built in {time.monotonic() - began:.0f} s\n")
    print(image.reference)


def _push_all(tool: Tool, naming: Naming, images: Sequence[Image], file: Path) -> None:
    """Push one after the other, since they share most layers, and write what to install the chart with."""
    digests: dict[str, str] = {}
    for image in images:
        began = time.monotonic()
        digests[image.target] = tool.push(image)
        sys.stderr.write(f"[images] {image.reference} pushed in {time.monotonic() - began:.0f} s\n")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(chart_values(naming, digests), encoding="utf-8")
    sys.stderr.write(f"[images] {file} holds the values: helm install conch charts/conch --values {file} …\n")


if __name__ == "__main__":
    sys.exit(main())
