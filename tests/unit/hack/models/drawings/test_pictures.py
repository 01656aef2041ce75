from random import Random

import numpy as np

from models.drawings.outlines import KINDS
from models.drawings.pictures import Painter
from models.drawings.scenes import COLORS, Layout, Scene, Thing, draw_scene


def test_a_shape_has_its_color_within_and_the_ground_around_it() -> None:
    scene = Scene(Layout.SHAPE, (Thing("square", "blue", 20, 30, 10),), 200)
    (picture,) = Painter().paint([scene])
    assert tuple(picture[30, 20]) == COLORS["blue"]
    assert tuple(picture[30, 27]) == COLORS["blue"]
    assert tuple(picture[30, 32]) == tuple(picture[5, 60]) == (200, 200, 200)


def test_a_larger_picture_shows_the_same() -> None:
    scene = draw_scene(Random(1))
    painter = Painter()
    small, large = painter.paint([scene])[0].astype(int), painter.paint([scene], 128)[0].astype(int)
    shrunk = large.reshape(64, 2, 64, 2, 3).mean((1, 3))
    assert np.abs(shrunk - small).mean() < 2


def test_no_two_kinds_look_alike() -> None:
    scenes = [Scene(Layout.SHAPE, (Thing(kind, "red", 32, 32, 20),), 255) for kind in KINDS]
    pictures = Painter().paint(scenes).astype(int)
    for at, one in enumerate(pictures):
        assert all(np.abs(one - other).mean() > 2 for other in pictures[at + 1 :])


def test_rough_pictures_are_the_same_again_with_the_same_seed() -> None:
    scenes = [draw_scene(Random(7)) for _ in range(3)]
    painter = Painter()
    assert np.array_equal(painter.paint_roughly(scenes, 5), painter.paint_roughly(scenes, 5))
    assert not np.array_equal(painter.paint_roughly(scenes, 5), painter.paint_roughly(scenes, 6))
