import numpy as np
import pytest

from models.drawings.files import as_png, few_colors, twins
from models.drawings.pictures import Painter
from models.drawings.reading import decoded
from models.drawings.scenes import Layout, Scene, Thing


@pytest.mark.parametrize("at", range(6))
def test_each_form_of_a_picture_shows_it_upright_on_white(at: int) -> None:
    scene = Scene(Layout.DIGIT, (Thing("7", "red", 30, 34, 20),), 255)
    picture = few_colors(Painter().paint([scene])[0])
    file = twins("red_7", picture, picture.rotate(90))[at]
    shown = decoded(file.content)
    assert (shown.mode, shown.size) == ("RGB", picture.size)
    far = np.abs(np.asarray(shown).astype(int) - np.asarray(picture).astype(int)).mean()
    assert far < 3 if file.name.endswith(".jpg") else far == 0


def test_a_plain_file_is_the_picture_itself() -> None:
    picture = few_colors(Painter().paint([Scene(Layout.SHAPE, (Thing("star", "green", 30, 34, 20),), 20)])[0])
    assert np.array_equal(np.asarray(decoded(as_png("star", picture).content)), np.asarray(picture))
