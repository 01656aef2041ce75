import yaml

from images.chart_values import chart_values
from images.image_names import Naming

_NAMING = Naming("registry.example.com/conch", "dev-1")
_DIGEST = f"sha256:{'a' * 64}"


def test_pushed_images_are_pinned_by_digest() -> None:
    assert yaml.safe_load(chart_values(_NAMING, {"gateway": _DIGEST, "redis": _DIGEST})) == {
        "images": {"prefix": "registry.example.com/conch", "tag": "dev-1", "digests": {"gateway": _DIGEST}},
        "redis": {"image": f"registry.example.com/conch/redis@{_DIGEST}"},
    }
