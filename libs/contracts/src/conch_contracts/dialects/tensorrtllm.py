"""Tensor names of the `tensorrtllm` dialect, by version and by model: a parameter goes to the first that is declared.

The model `tensorrt_llm` takes ids; `ensemble`, `tensorrt_llm_bls` and the LLM API's model take text, the last with
parameters called `sampling_param_*`. What comes back as text has the names of the `vllm` dialect.
"""

INPUT_IDS = "input_ids"
INPUT_LENGTHS = "input_lengths"
TEXT_INPUT = "text_input"
LLM_API_LIMIT = "sampling_param_max_tokens"
LIMIT = ("request_output_len", "max_tokens", LLM_API_LIMIT)
STREAMING = ("streaming", "stream")
EXCLUDE_INPUT = ("exclude_input_in_output", "sampling_param_exclude_input_from_output")
TEMPERATURE = ("temperature", "sampling_param_temperature")
TOP_K = ("runtime_top_k", "top_k", "sampling_param_top_k")
TOP_P = ("runtime_top_p", "top_p", "sampling_param_top_p")
SEED = ("seed", "random_seed", "sampling_param_seed")
REPETITION_PENALTY = ("repetition_penalty",)
PRESENCE_PENALTY = ("presence_penalty", "sampling_param_presence_penalty")
FREQUENCY_PENALTY = ("frequency_penalty", "sampling_param_frequency_penalty")
MIN_TOKENS = ("min_tokens", "min_length")
END_ID = "end_id"
PAD_ID = "pad_id"
BAD_IDS, STOP_IDS = "bad_words_list", "stop_words_list"
BAD_WORDS, STOP_WORDS = "bad_words", "stop_words"
BIAS = "embedding_bias"
"""FP32, one number for each id of the engine's vocabulary; any other count is an error."""
RETURN_LOGPROBS = "return_log_probs"
LENGTH_PENALTY = ("len_penalty", "length_penalty")
GUIDE_TYPE, GUIDE = "guided_decoding_guide_type", "guided_decoding_guide"

OUTPUT_IDS = "output_ids"
OUTPUT_LOGPROBS = "output_log_probs"
