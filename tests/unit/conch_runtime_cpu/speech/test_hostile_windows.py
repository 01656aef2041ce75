"""Whatever a request holds, it is refused by name, or can be computed."""

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from conch_contracts.messages.transcription import SpeechParameters
from conch_runtime_cpu.errors import UnservableRequest
from conch_runtime_cpu.speech.vocabulary import SpeechVocabulary
from conch_runtime_cpu.speech.window_requests import parse_window

SIZE, CONTEXT, START, LANGUAGES = 30, 12, 21, frozenset({22, 23})
VOCABULARY = SpeechVocabulary(SIZE, START, (20,), LANGUAGES, 25, 24, alignment_heads=((0, 0),))
NUMBERS = st.one_of(st.integers(-(2**70), 2**70), st.floats(), st.booleans())
VALUES = st.one_of(st.none(), NUMBERS, st.text(max_size=3), st.lists(NUMBERS, max_size=20))
PARAMETERS = st.dictionaries(st.sampled_from([*SpeechParameters.__struct_fields__, "other"]), VALUES)
VALID = {"max_tokens": 7, "temperatures": [0, 1], "seed": -5}
ANY_IDS = st.lists(st.one_of(st.sampled_from([START, -1, 22, 25]), st.integers(-(2**31), 2**31 - 1)), max_size=14)
PROMPTS = st.one_of(ANY_IDS, st.sampled_from([[START], [1, START, -1, 2], [START, 22, 25]]))


@given(PROMPTS, st.integers(0, 3), st.one_of(st.just({}), PARAMETERS, st.text()))
def test_a_window_is_refused_by_name_or_can_be_computed(
    prompt: list[int], samples: int, changes: dict[str, object] | str
) -> None:
    text = changes if isinstance(changes, str) else json.dumps(VALID | changes)
    pcm, encoded = np.zeros(samples, np.int16), text.encode("utf-8", "surrogatepass")
    try:
        request = parse_window(pcm, np.array(prompt, np.int32), encoded, VOCABULARY, CONTEXT)
    except UnservableRequest as error:
        name, _, reason = str(error).partition(": ")
        assert name
        assert reason
        return
    assert samples > 0
    assert request.prompt[request.start] == START
    assert 0 < request.parameters.max_tokens <= CONTEXT - len(prompt)
    assert all(0 <= token < SIZE or place == request.start + 1 for place, token in enumerate(request.prompt.tolist()))
    assert 0 <= request.try_at(0, request.prompt).seed < 2**64
