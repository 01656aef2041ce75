from random import Random

from models.drawings.scenes import Layout, Scene, Thing, draw_scene
from models.tiny_clip.captions import choices, in_words, said_of


def test_the_first_caption_says_all() -> None:
    stars = tuple(Thing("star", "green", each, 30, 8) for each in (10, 30, 50))
    assert said_of(Scene(Layout.COUNT, stars, 0)) == ["3 green stars", "3 stars", "3 green shapes", "green stars"]


def test_every_description_of_one_thing_is_a_choice_once() -> None:
    random = Random(2)
    for layout, count in ((Layout.DIGIT, 60), (Layout.SHAPE, 30)):
        known = list(choices(layout, held_out=False))
        rest = list(choices(layout, held_out=True))
        assert len({*known, *rest}) == len(known) + len(rest) == count
        assert all(said_of(draw_scene(random, layout))[0] in known for _ in range(50))


def test_a_number_may_be_a_word() -> None:
    written = {in_words(Random(each), "3 green stars").lower().rstrip(".") for each in range(60)}
    assert {"3 green stars", "three green stars", "a drawing of three green stars"} <= written
