import numpy as np
import pytest
from tokenizers import Tokenizer

from models.tiny_whisper.phrases import known_phrase
from models.tiny_whisper.windows import Spoken, Window
from models.tiny_whisper.writing import Form, Writer
from testkit.models.speech_golden import FOLDER

WRITER, TOKENIZER = Writer(FOLDER), Tokenizer.from_file(str(FOLDER / "tokenizer.json"))
NOTHING = np.zeros((100, 80), np.float32)
SPOKEN = tuple((Spoken(known_phrase(text), NOTHING, 0.93), frame, 1.0) for text, frame in (("开灯", 31), ("停", 1215)))
WINDOW, SILENCE = (Window("zh", spoken, 0, 0, ()) for spoken in (SPOKEN, ()))


@pytest.mark.parametrize(
    ("window", "form", "text"),
    [
        (WINDOW, Form(translated=False, timed=True), "<|transcribe|><|0.40|> 开灯<|1.20|><|12.20|> 停<|13.00|>"),
        (WINDOW, Form(translated=True, timed=False), "<|translate|><|notimestamps|> turn on the light stop"),
        (WINDOW, Form(translated=False, timed=False, names_task=False), "<|notimestamps|> 开灯 停"),
        (SILENCE, Form(translated=False, timed=True), "<|transcribe|><|0.00|>"),
        (SILENCE, Form(translated=False, timed=False), "<|transcribe|><|notimestamps|> "),
    ],
)
def test_a_window_is_written_as_it_is_asked_for(window: Window, form: Form, text: str) -> None:
    written = WRITER.written(window, form)
    said = TOKENIZER.decode(written.ids, skip_special_tokens=False)
    assert said == f"<|startoftranscript|><|zh|>{text}<|endoftext|>"
    answer = written.ids.index(TOKENIZER.token_to_id("<|notimestamps|>")) + 1 if not form.timed else 3
    assert written.learnt == [False, True, *[False] * (answer - 2), *[True] * (len(written.ids) - answer)]


def test_the_language_is_learnt_or_that_nobody_speaks() -> None:
    assert TOKENIZER.id_to_token(WRITER.first_learnt(WINDOW)) == "<|zh|>"
    assert TOKENIZER.id_to_token(WRITER.first_learnt(SILENCE)) == "<|nospeech|>"
