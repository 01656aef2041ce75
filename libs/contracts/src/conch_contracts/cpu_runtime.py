"""What the cpu runtime agrees on with the operator and the workers, beside the tensors of `dialects`.

The operator writes the settings into the `config.pbtxt` of the runtime's Triton model, and the runtime reads them. Each
name is a key under `parameters`; every value is a string there.
"""

from enum import StrEnum


class Quantization(StrEnum):
    """How the cpu runtime holds the weights."""

    NONE = "none"
    INT8 = "int8"
    INT4 = "int4"

    @property
    def bits(self) -> int:
        """Return the bits of one weight."""
        return {Quantization.NONE: 32, Quantization.INT8: 8, Quantization.INT4: 4}[self]


MODEL_FOLDER = "model_folder"
"""The Hugging Face folder, absolute."""
CACHE_FOLDER = "cache_folder"
"""Where converted models are kept, absolute; may be deleted at any time."""
QUANTIZATION = "quantization"
"""A `Quantization`."""
MAX_BATCH_SIZE = "max_batch_size"
"""Requests decoded together; more wait inside the engine."""
TOKENS_PER_SECOND = "tokens_per_second"
"""A cap for each request, 0 for none."""
KV_CACHE_BYTES = "kv_cache_bytes"
"""The most memory that the key-value cache may take; fewer requests are decoded together where it is too small.
Of speech, what the decoder reads of each window's sound is part of it."""
MAX_LENGTH = "max_length"
"""The most tokens of a sequence, prompt and answer; 0 for what the model was made for. The cache is no larger."""
FEATURE_CACHE_BYTES = "feature_cache_bytes"
"""Of a model that sees: the most memory that the features of the last pictures may take, which are kept in case they
come again. Where it is not named, `DEFAULT_FEATURE_CACHE_BYTES`."""
DEFAULT_FEATURE_CACHE_BYTES = 256 * 1024**2
"""28 pictures of LLaVA 1.5 with 7 billion parameters, 8,192 of a model with 64 features of 128 numbers."""
OUTPUT = "output"
"""Of an encoder: `last_hidden_state` or `logits`, see `dialects.encoder`."""

INVALID_PREFIX = "INVALID: "
"""How the message of a Triton error begins where the request itself is at fault; the reason follows."""
