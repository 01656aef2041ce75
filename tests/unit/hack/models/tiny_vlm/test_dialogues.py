from random import Random

from models.drawings.scenes import Layout, Scene, Thing, draw_scene
from models.tiny_vlm.dialogues import draw_dialogue, one_picture, two_pictures

RED_SEVEN = Scene(Layout.DIGIT, (Thing("7", "red", 32, 32, 20),), 255)
BLUE_STAR = Scene(Layout.SHAPE, (Thing("star", "blue", 32, 32, 20),), 255)


def test_the_answers_say_what_is_in_the_picture() -> None:
    answers = {each.question: each.answer for each in one_picture(RED_SEVEN)}
    assert answers["Which digit is this?"] == "7"
    assert answers["What color is it?"] == "Red."
    assert answers["Describe the picture."] == "A red 7."


def test_the_answers_about_two_pictures_follow_their_order() -> None:
    there = {each.question: each.answer for each in two_pictures(Random(1), RED_SEVEN, BLUE_STAR)}
    back = {each.question: each.answer for each in two_pictures(Random(1), BLUE_STAR, RED_SEVEN)}
    assert there["What is in the first picture?"] == back["What is in the second picture?"] == "A red 7."
    assert there["Describe both pictures."] == "First a red 7, then a blue star."
    assert there["Do both have the same color?"] == "No."


def test_a_question_has_one_answer() -> None:
    random = Random(3)
    for _ in range(300):
        turns = one_picture(draw_scene(random))
        assert len({each.question for each in turns}) == len(turns)


def test_pictures_stand_before_the_first_question_alone() -> None:
    pieces = draw_dialogue(Random(1), 2).pieces()
    assert pieces[0][0].startswith("<|im_start|>user\n<image>\n<image>\n")
    assert all("<image>" not in text for text, _ in pieces[1:])
    assert [text.endswith("<|im_end|>") for text, learnt in pieces if learnt] == [True] * 4
