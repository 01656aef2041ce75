"""The `whisper_bls` dialect: one window of sound and a text that the decoder begins with in, a text out.

It is that of the Whisper models which others run on Triton. What is said here was read in

- `whisper_bls`, TensorRT-LLM: `triton_backend/all_models/whisper/whisper_bls/1/model.py` of NVIDIA/TensorRT-LLM at
  7d5c445, its `config.pbtxt` at efaa1d6, and the same model in triton-inference-server/tensorrtllm_backend at 674fc88;
- `infer_bls`, sherpa: `triton/whisper/model_repo_whisper_trtllm/infer_bls/1/model.py` of k2-fsa/sherpa at fbda916, its
  `config.pbtxt` at 948961f, and the model `whisper` beside it, which writes the text, at 3f19c55. Older models called
  `whisper` (4cf1c6c) do without WAV_LENS.

| tensor      | direction | type, shape   | meaning                                                                    |
|-------------|-----------|---------------|----------------------------------------------------------------------------|
| TEXT_PREFIX | in        | STRING [B, 1] | special tokens as text; the empty text means English without times         |
| WAV         | in        | FP32 [B, N]   | mono at 16 kHz, from -1 to 1                                               |
| WAV_LENS    | in        | INT32 [B, 1]  | N; optional in the config, but models that declare it cannot do without    |
| TRANSCRIPTS | out       | STRING [B, 1] | the text, without special tokens and times; a decoupled model sends the    |
|             |           |               | whole text so far in each message                                          |

- The config has a batch dimension (the models read `TEXT_PREFIX[0][0]`), and a request is one row: both models assert
  it. WAV is 201 samples long at least, since the spectrogram mirrors 200 at each end, and 30 s at most, since nothing
  cuts what the encoder takes.
- Whatever stands between `<|` and `|>` is removed from the text, so that times never come out: they are not asked for.
- The engine's decoder takes 14 ids of a prompt (`--max_input_len 14` in both guides), so only special tokens go there.
- A text ends after a number of tokens without a word about it: 50 in `whisper_bls`, 96 in `infer_bls`.
- The text is the likeliest one (greedy); nothing else can be asked for, and no probability comes out. Nothing ends what
  has begun: a request that is cancelled while it runs goes on to its end.
"""

from collections.abc import Mapping

TEXT_PREFIX = "TEXT_PREFIX"
WAV = "WAV"
WAV_LENS = "WAV_LENS"
TRANSCRIPTS = "TRANSCRIPTS"

INPUTS: Mapping[str, tuple[str, int]] = {TEXT_PREFIX: ("STRING", 1), WAV: ("FP32", -1), WAV_LENS: ("INT32", 1)}
"""The type of each input and its dimension, beside the batch's; -1 is as many as there are."""
NEEDED = (TEXT_PREFIX, WAV)
OUTPUTS: Mapping[str, tuple[str, int]] = {TRANSCRIPTS: ("STRING", 1)}

WINDOW_TOKENS = 50
"""Tokens after which a text ends where the ModelDeployment does not say another number."""
LEAST_WINDOW_TOKENS, MOST_WINDOW_TOKENS = 40, 448
SHORTEST_SAMPLES, LONGEST_SAMPLES = 201, 480_000
