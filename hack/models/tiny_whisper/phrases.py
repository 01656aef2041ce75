"""What is said: English digits and commands, a few Chinese words and digits, and what these are in English."""

from dataclasses import dataclass
from random import Random

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_CHINESE_DIGITS = "零一二三四五六七八九"
_COMMANDS = (
    *("yes", "no", "stop", "go", "left", "right", "up", "down", "hello world", "good morning", "turn on the light"),
    *("turn off the light", "open the door", "close the door", "play music", "thank you"),
)
_CHINESE = {
    "你好": "hello",
    "谢谢": "thank you",
    "开灯": "turn on the light",
    "关灯": "turn off the light",
    "停": "stop",
}


@dataclass(frozen=True, slots=True)
class Phrase:
    """A few words."""

    language: str
    text: str
    translation: str
    """In English; the text itself where that is English."""

    @property
    def spelt(self) -> str:
        """Return it as a voice is to read it: digits one by one."""
        return " ".join(self.text) if self.text[0] in _CHINESE_DIGITS else self.text


def draw_phrase(random: Random) -> Phrase:
    """Return something that may be said."""
    return _chinese(random) if random.random() < 0.35 else _english(random)


def known_phrase(text: str) -> Phrase:
    """Return a text that is English, or one of the Chinese commands."""
    return Phrase("zh", text, _CHINESE[text]) if text in _CHINESE else Phrase("en", text, text)


def _english(random: Random) -> Phrase:
    kind = random.random()
    if kind < 0.65:
        text = " ".join(random.choice(DIGITS) for _ in range(1 if kind < 0.12 else random.randint(2, 4)))
    else:
        text = random.choice(_COMMANDS)
    return Phrase("en", text, text)


def _chinese(random: Random) -> Phrase:
    if random.random() < 0.6:
        digits = [random.randrange(10) for _ in range(random.randint(1, 3))]
        text = "".join(_CHINESE_DIGITS[each] for each in digits)
        return Phrase("zh", text, " ".join(DIGITS[each] for each in digits))
    return known_phrase(random.choice(list(_CHINESE)))
