"""Pictures that are damaged at random: each is read or refused as a picture that is none."""

import random
from collections import Counter

from conch_kit.errors import InvalidRequest
from conch_tokenizer.pictures.picture_files import decode
from testkit.models.pictures import forms, turned

SEED = 20261124
TRIES = 10_000
HEAD_BYTES = 64
"""Where most of what a file says of itself stands."""
MAX_PIXELS = 200_000


def test_damaged_pictures_are_read_or_refused() -> None:
    chance = random.Random(SEED)
    files = [*forms().values(), *(turned(6, kind) for kind in ("JPEG", "PNG", "WEBP"))]
    codes = Counter(_outcome(_damaged(chance.choice(files), chance)) for _ in range(TRIES))
    assert set(codes) == {"read", "here: invalid_value"}
    assert min(codes.values()) > TRIES / 20  # else nothing was tried


def _outcome(data: bytes) -> str:
    try:
        decode(data, MAX_PIXELS, param="here")
    except InvalidRequest as exc:
        return f"{exc.param}: {exc.code}"
    return "read"


def _damaged(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.randint(1, 8)):
        end = chance.choice((HEAD_BYTES, len(changed)))
        changed[chance.randrange(min(end, len(changed)))] = chance.choice((0, 1, 127, 128, 255, chance.randrange(256)))
    if chance.random() < 0.1:
        del changed[chance.randrange(len(changed)) :]
    return bytes(changed)
