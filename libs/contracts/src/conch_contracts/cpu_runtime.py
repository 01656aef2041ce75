"""The settings of the cpu runtime's Triton model: the operator writes them into `config.pbtxt`, the runtime reads them.

Each name is a key under `parameters`; every value is a string there.
"""

MODEL_FOLDER = "model_folder"
"""The Hugging Face folder, absolute."""
CACHE_FOLDER = "cache_folder"
"""Where converted models are kept, absolute; may be deleted at any time."""
QUANTIZATION = "quantization"
"""`none`, `int8` or `int4`."""
MAX_BATCH_SIZE = "max_batch_size"
"""Requests decoded together; more wait inside the engine."""
TOKENS_PER_SECOND = "tokens_per_second"
"""A cap for each request, 0 for none."""
KV_CACHE_BYTES = "kv_cache_bytes"
"""The most memory that the key-value cache may take; fewer requests are decoded together where it is too small."""
OUTPUT = "output"
"""Of an encoder: `last_hidden_state` or `logits`, see `encoder_dialect`."""
