"""The `speech` dialect: one window of sound in, the ids of what is said in it out.

The Triton model is decoupled and has `max_batch_size: 0`. A request is one window. The engine makes the spectrogram, so
that it alone knows how its model hears; it tries the temperatures in turn and answers with the first try that its
thresholds accept, so that nothing that a client has seen is taken back.

| tensor         | direction | type, shape  | meaning                                                                  |
|----------------|-----------|--------------|--------------------------------------------------------------------------|
| pcm            | in        | INT16 [N]    | mono at 16 kHz, 1 to 480,000 samples (30 s); the engine pads it          |
| prompt_ids     | in        | INT32 [P]    | what the decoder is given; -1 in the language's place: find the language |
| parameters     | in        | STRING [1]   | `SpeechParameters` as JSON; what is left out has its default             |
| language_id    | out       | INT32 [1]    | once, before or with the last response: the language's id, found or      |
|                |           |              | given; -1 where none is                                                  |
| no_speech_prob | out       | FP32 [1]     | with it: how likely nobody speaks; NaN where nobody can say              |
| token_ids      | out       | INT32 [K]    | last response only: text and times, without the prompt and the ending id |
| logprobs       | out       | FP32 [K]     | last response only: natural log probability of each                      |
| avg_logprob    | out       | FP32 [1]     | last response only: their mean, the ending id's among them               |
| temperature    | out       | FP32 [1]     | last response only: at which the accepted try was made                   |
| token_times    | out       | FP32 [K + 1] | last response only, with `word_times`: see below                         |
| finish_reason  | out       | STRING [1]   | last response only: `stop`, `length` or `cancelled`                      |

Log probabilities are those among the ids that may follow: of the logits in which what the model's folder suppresses,
and what the rules of times forbid, is minus infinity; before penalties, temperature, `top_k`, `top_p` and `min_p`.
`token_times` are the seconds in the window at which each token begins, and at which the last one ends; an id that
stands for a time lasts no time, and stands where the text before it ends. A request that is cancelled, or in which
nobody speaks, has no ids.
While it works, and while a request waits, the engine sends a response with `token_ids` of no ids at least once in
`PROGRESS_S`, so that silence means that it is dead; such responses come before `language_id` too. A request that cannot
be obeyed gets a Triton error whose message begins with `cpu_runtime.INVALID_PREFIX`, then `<name>: <reason>` with the
parameter's or the tensor's name.
"""

PCM = "pcm"
PROMPT_IDS = "prompt_ids"
PARAMETERS = "parameters"
LANGUAGE_ID = "language_id"
NO_SPEECH_PROB = "no_speech_prob"
TOKEN_IDS = "token_ids"
LOGPROBS = "logprobs"
AVG_LOGPROB = "avg_logprob"
TEMPERATURE = "temperature"
TOKEN_TIMES = "token_times"
FINISH_REASON = "finish_reason"

FINISH_STOP = "stop"
FINISH_LENGTH = "length"
FINISH_CANCELLED = "cancelled"

SAMPLE_RATE = 16_000
WINDOW_SAMPLES = 480_000
FIND_LANGUAGE = -1
PROGRESS_S = 1.0
SECONDS_PER_TIME_ID = 0.02
"""Between two ids that stand for a time."""

START = "<|startoftranscript|>"
PREVIOUS = "<|startofprev|>"
TRANSCRIBE = "<|transcribe|>"
TRANSLATE = "<|translate|>"
NO_TIMES = "<|notimestamps|>"
"""The id behind it is that of 0 s; each one further is `SECONDS_PER_TIME_ID` later."""
NO_SPEECH = ("<|nospeech|>", "<|nocaptions|>")
"""The newer name and the older one."""
END = "<|endoftext|>"


def language_token(code: str) -> str:
    """Return the special token of a language, `<|en|>` for `en`."""
    return f"<|{code}|>"
