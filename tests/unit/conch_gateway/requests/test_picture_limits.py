"""What the tokenizer is told of a model's bounds on pictures."""

from conch_contracts.messages.tokenization import PictureLimits
from conch_contracts.records import PictureProfile
from conch_gateway.requests import content_parts


def test_each_bound_of_the_model_reaches_who_reads_the_pictures() -> None:
    found = content_parts.limits(PictureProfile(max=2, max_pixels=9, max_bytes=7))
    assert found == PictureLimits(max=2, max_pixels=9, max_bytes=7)
