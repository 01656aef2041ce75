"""What a model learns to write behind a window: a prompt, then times and texts, or texts alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer

from models.tiny_whisper.windows import Segment, Window

IDS_OF_S = 50
"""Ids of times: one each 0.02 s."""
_NOTHING = " "
"""Written without times where nobody speaks: the first id of an answer may not be the ending one."""


@dataclass(frozen=True, slots=True)
class Form:
    """How it is asked."""

    translated: bool
    timed: bool
    names_task: bool = True
    """Whether the prompt does: transformers leaves it out where neither language nor task is asked for."""


@dataclass(frozen=True, slots=True)
class Written:
    """Ids from the start on, and which of them are learnt."""

    ids: list[int]
    learnt: list[bool]


class Writer:
    """Writes with the tokenizer of a folder."""

    def __init__(self, folder: Path) -> None:
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.end = self._id("<|endoftext|>")
        self.first_time = self._id("<|0.00|>")
        self.times = self._id("<|30.00|>") + 1 - self.first_time

    def written(self, window: Window, form: Form) -> Written:
        """Return what is to be written behind a window."""
        task = self._id("<|translate|>" if form.translated else "<|transcribe|>")
        prompt = [self._id("<|startoftranscript|>"), self._id(f"<|{window.language}|>")]
        if form.names_task:
            prompt.append(task)
        if not form.timed:
            prompt.append(self._id("<|notimestamps|>"))
        answer = self._answer(window.segments, form)
        learnt = [False] * len(prompt) + [True] * len(answer)
        learnt[1] = True
        return Written(prompt + answer, learnt)

    def first_learnt(self, window: Window) -> int:
        """Return what is learnt behind the start: the language, or that nobody speaks."""
        return self._id(f"<|{window.language}|>" if window.spoken else "<|nospeech|>")

    def _answer(self, segments: Sequence[Segment], form: Form) -> list[int]:
        found: list[int] = []
        for each in segments:
            text = self._ids(f" {each.phrase.translation if form.translated else each.phrase.text}")
            found += [self._time(each.start), *text, self._time(each.end)] if form.timed else text
        if not segments:
            found = [self._time(0)] if form.timed else self._ids(_NOTHING)
        return [*found, self.end]

    def _time(self, seconds: float) -> int:
        return self.first_time + round(seconds * IDS_OF_S)

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def _id(self, token: str) -> int:
        found = self._tokenizer.token_to_id(token)
        if found is None:
            raise SystemExit(f"the tokenizer does not know {token}")
        return int(found)
