"""The chart's values for images that have been pushed: where they are, each pinned by its digest."""

from collections.abc import Mapping

from images.image_names import Naming


def chart_values(naming: Naming, digests: Mapping[str, str]) -> str:
    """Return a file of values; the bundled Redis is taken from the same registry when it was pushed there."""
    services = {name: digest for name, digest in digests.items() if name != "redis"}
    lines = ["images:", f"  prefix: {naming.prefix}", f"  tag: {naming.version}"]
    if services:
        lines += ["  digests:", *(f"    {name}: {digest}" for name, digest in services.items())]
    if redis := digests.get("redis"):
        lines += ["redis:", f"  image: {naming.prefix}/redis@{redis}"]
    return "\n".join(lines) + "\n"
