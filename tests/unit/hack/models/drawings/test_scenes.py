from random import Random

import pytest

from models.drawings.outlines import DIGITS, KINDS, SHAPES
from models.drawings.scenes import COLORS, SIDE, Layout, draw_scene, held_out_color, held_out_count


@pytest.mark.parametrize("layout", Layout)
@pytest.mark.parametrize("held_out", [False, True])
def test_training_never_sees_what_is_held_out(layout: Layout, *, held_out: bool) -> None:
    random = Random(2)
    for _ in range(40):
        scene = draw_scene(random, layout, held_out=held_out)
        colors = any(held_out_color(each.kind, each.color) for each in scene.things)
        counts = layout is Layout.COUNT and held_out_count(len(scene.things), scene.first.kind)
        assert (colors or counts) is held_out


def test_one_color_of_each_kind_and_one_number_of_each_shape_is_held_out() -> None:
    assert all(sum(held_out_color(kind, color) for color in COLORS) == 1 for kind in KINDS)
    assert all(sum(held_out_count(count, kind) for count in range(2, 6)) == 1 for kind in SHAPES)


def test_things_are_within_the_picture_and_apart_from_each_other() -> None:
    random = Random(3)
    for _ in range(300):
        things = draw_scene(random).things
        for at, one in enumerate(things):
            assert min(one.x, one.y) > one.radius * 0.9
            assert max(one.x, one.y) < SIDE - one.radius * 0.9
            for other in things[at + 1 :]:
                assert max(abs(one.x - other.x), abs(one.y - other.y)) > max(one.radius, other.radius)


def test_the_left_one_of_two_stands_first() -> None:
    random = Random(4)
    pairs = [draw_scene(random, Layout.PAIR).things for _ in range(100)]
    assert all(left.x < right.x and left.kind != right.kind and left.color != right.color for left, right in pairs)


def test_digits_are_drawn_alone() -> None:
    random = Random(5)
    assert all(len(each.things) == 1 for _ in range(200) if (each := draw_scene(random)).first.kind in DIGITS)
