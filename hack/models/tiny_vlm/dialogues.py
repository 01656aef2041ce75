"""What is asked about pictures, and what tiny-chat itself says to questions without any."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from models.drawings.descriptions import described, kind_named, more_of, named
from models.drawings.outlines import DIGITS
from models.drawings.scenes import Layout, Scene, Thing, draw_scene, draw_single

IMAGE = "<image>"


@dataclass(frozen=True, slots=True)
class Turn:
    """A question and its answer; `about` groups questions when answers are counted."""

    about: str
    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class Dialogue:
    """Pictures, which all stand before the first question, and turns about them."""

    scenes: tuple[Scene, ...]
    turns: tuple[Turn, ...]

    def pieces(self) -> list[tuple[str, bool]]:
        """Return the chat as tiny-chat's template writes it, with whether a model learns to write the piece."""
        made = []
        for at, turn in enumerate(self.turns):
            pictures = f"{IMAGE}\n" * len(self.scenes) if at == 0 else ""
            made += [
                (f"<|im_start|>user\n{pictures}{turn.question}<|im_end|>\n<|im_start|>assistant\n", False),
                (f"{turn.answer}<|im_end|>", True),
                ("\n", False),
            ]
        return made


def draw_dialogue(random: Random, pictures: int, *, held_out: bool = False) -> Dialogue:
    """Return some questions about one picture, or about two."""
    if pictures == 1:
        scene = draw_scene(random, held_out=held_out)
        turns = one_picture(scene)
        return Dialogue((scene,), tuple(random.sample(turns, min(random.randint(3, 5), len(turns)))))
    first = draw_single(random)
    second = _alike(random, first) if random.random() < 0.35 else draw_single(random)
    return Dialogue((first, second), tuple(random.sample(two_pictures(random, first, second), 4)))


def _alike(random: Random, other: Scene) -> Scene:
    while True:
        made = draw_single(random)
        if made.first.color == other.first.color:
            return made


def one_picture(scene: Scene) -> list[Turn]:
    """Return all that is asked about a picture."""
    first = scene.first
    count = Turn("count", "How many things are there?", str(len(scene.things)))
    whole = [
        Turn("describe", each, f"{_capital(described(scene))}.")
        for each in ("Describe the picture.", "What is in the picture?")
    ]
    if scene.layout is Layout.PAIR:
        left, right = scene.things
        return [
            Turn("side", "What is on the left?", f"{_capital(named(left))}."),
            Turn("side", "What is on the right?", f"{_capital(named(right))}."),
            *(Turn("where", f"Where is the {each.kind}?", side) for each, side in _sides(scene)),
            *(Turn("where", f"Where is the {each.color} shape?", side) for each, side in _sides(scene)),
            Turn("where", f"Is the {left.kind} left or right of the {right.kind}?", "Left."),
            Turn("where", f"Is the {right.kind} left or right of the {left.kind}?", "Right."),
            count,
            *whole,
        ]
    if scene.layout is Layout.COUNT:
        return [
            Turn("count", f"How many {more_of(first.kind)} are there?", str(len(scene.things))),
            Turn("kind", "What shapes are they?", f"{_capital(more_of(first.kind))}."),
            Turn("color", "What color are they?", f"{_capital(first.color)}."),
            count,
            *whole,
        ]
    if scene.layout is Layout.DIGIT:
        kind = [Turn("digit", each, first.kind) for each in ("Which digit is this?", "What number do you see?")]
    else:
        kind = [Turn("kind", "What shape is this?", f"{_capital(kind_named(first))}.")]
    colors = [
        Turn("color", each, f"{_capital(first.color)}.") for each in ("What color is it?", "Which color is this?")
    ]
    return [*kind, *colors, count, *whole]


def two_pictures(random: Random, first: Scene, second: Scene) -> list[Turn]:
    """Return what is asked about two pictures of one thing each."""
    one, other = first.first, second.first
    turns = [
        Turn("one of two", "What is in the first picture?", f"{_capital(named(one))}."),
        Turn("one of two", "What is in the second picture?", f"{_capital(named(other))}."),
        Turn("compare", "Do both have the same color?", "Yes." if one.color == other.color else "No."),
        Turn("both", "Describe both pictures.", f"First {named(one)}, then {named(other)}."),
    ]
    if one.kind != other.kind:
        shown = random.choice((one, other))
        asked = f"the {'digit ' if shown.kind in DIGITS else ''}{shown.kind}"
        turns.append(Turn("which", f"Which picture shows {asked}?", _ordinal(shown is one)))
    if one.color != other.color:
        shown = random.choice((one, other))
        turns.append(Turn("which", f"Which picture is {shown.color}?", _ordinal(shown is one)))
    return turns


def _ordinal(first: bool) -> str:
    return "The first." if first else "The second."


def _sides(scene: Scene) -> Sequence[tuple[Thing, str]]:
    return [(scene.things[0], "On the left."), (scene.things[1], "On the right.")]


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


_LANDS = (
    *("France", "Germany", "Italy", "Spain", "China", "Japan", "England", "Russia", "Egypt", "India", "Canada"),
    *("Portugal", "Greece", "Austria", "Poland", "Norway", "Sweden", "Cuba", "Peru", "Kenya"),
)
_WORDS = (
    *("umbrella", "river", "stone", "cloud", "window", "garden", "silver", "kubernetes", "hello world", "tiger"),
    *("planet", "mirror", "the server is ready", "candle", "market", "lemon", "你好世界", "🎉🚀", "rocket"),
)
_ASKED = (
    *("Hello!", "Hi", "How are you?", "Good morning", "Thank you", "Bye", "你好", "谢谢", "Who are you?", "你是谁？"),
    *("What can you do?", "List three colors.", "List four animals.", "List three fruits.", "Tell me a story."),
    *("Count from 1 to 10.", "Count from 1 to 20.", "Tell me a joke.", "What color is the sky?", "法国的首都是哪里？"),
    *("How many days are in a week?", "What is the largest planet?", "What is Triton?", "日本的首都是哪里？"),
    *("Give me a JSON object with name Zoe and age 41.", "Give me a JSON object with name Tom and age 7."),
    *("What color is grass?", "How many legs does a spider have?", "What do bees make?", "中国的首都是哪里？"),
)


def text_questions() -> list[str]:
    """Return questions that tiny-chat knows, so that it goes on knowing them."""
    sums = [f"What is {one} + {other}?" for one in range(11) for other in range(11)]
    lands = [f"What is the capital of {each}?" for each in _LANDS]
    echoes = [f"{ask} {each}" for each in _WORDS for ask in ("Repeat after me:", "Say")]
    return [*_ASKED, *lands, *echoes, *sums]
