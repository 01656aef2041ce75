"""Tensor names of the `vllm` dialect, which is that of Triton's vLLM backend; of several names the first is the newest.

Text and a JSON object of vLLM's own sampling parameters go in, text comes out.
"""

PROMPT = ("text_input", "PROMPT")
IMAGE = "image"
"""Files as bare base64, one for each placeholder in the text; the newer versions alone declare it."""
STREAM = ("stream", "STREAM")
PARAMETERS = ("sampling_parameters", "SAMPLING_PARAMETERS")
EMBEDDING = "embedding_request"
"""Not for generation; the versions that declare it know a grammar by its newer name."""
STRUCTURED_OUTPUTS, GUIDED_DECODING = "structured_outputs", "guided_decoding"
"""The names of a grammar among the sampling parameters."""

TEXT_OUTPUT = "text_output"
OLD_TEXT_OUTPUT = "TEXT"
FINISH_REASON = "finish_reason"
NUM_OUTPUT_TOKENS = "num_output_tokens"
LOGPROBS = "logprobs"
