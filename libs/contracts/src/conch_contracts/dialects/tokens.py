"""The `tokens` dialect: the tensor contract of the cpu runtime, ids in and ids out.

The Triton model is decoupled and has `max_batch_size: 0`. A request sends `INPUT_IDS` and `PARAMETERS` and gets one
or more responses, each with the tokens made since the last one. The last response carries `FINISH_REASON` and
Triton's final flag. Log-probability tensors are present only when the parameters ask for them.

| tensor              | direction | type, shape     | meaning                                                         |
|---------------------|-----------|-----------------|-----------------------------------------------------------------|
| input_ids           | in        | INT32 [P]       | the prompt, at least one id                                     |
| parameters          | in        | STRING [1]      | `SamplingParameters` as JSON; what is left out has its default  |
| image_pixels        | in        | UINT8 [T]       | optional: all pictures one behind the other, RGB, row by row    |
| image_shapes        | in        | INT32 [N, 3]    | with it: height, width and 3 of each                            |
| image_spans         | in        | INT32 [N, 2]    | with it: where the ids of each begin, and how many they are     |
| image_hashes        | in        | STRING [N]      | with it: equal hashes, equal features                           |
| token_ids           | out       | INT32 [K]       | new tokens, the ending one included; K may be 0 in the last     |
| logprobs            | out       | FP32 [K]        | natural log probability of each new token                       |
| top_ids             | out       | INT32 [K, N]    | the N most likely ids at each position, most likely first       |
| top_logprobs        | out       | FP32 [K, N]     | their log probabilities                                         |
| prompt_logprobs     | out       | FP32 [P]        | first response only; position 0 is NaN                          |
| prompt_ranks        | out       | INT32 [P]       | first response only: 1 for the most likely id; position 0 is 0  |
| prompt_top_ids      | out       | INT32 [P, N]    | first response only; row 0 is -1                                |
| prompt_top_logprobs | out       | FP32 [P, N]     | first response only; row 0 is NaN                               |
| finish_reason       | out       | STRING [1]      | last response only: `stop`, `length` or `cancelled`             |
| stop_token_id       | out       | INT32 [1]       | last response only: the id that ended it, -1 when none did      |

With the parameter `logprob_token_ids` the ids that it names stand in `top_ids`, in its order, instead of the likeliest.
Pictures lie apart from each other, in the order of their ids; each id of a picture is the model's image token, and
there are as many as the picture has features. What is not so is refused as `INVALID: image_spans: <reason>`.
Log probabilities are those of the raw logits, before temperature, penalties and bias, unless `temp_scaled_logprobs` or
`top_p_normalized_logprobs` asks for others. A request whose parameters cannot be obeyed, or are not known, gets a
Triton error whose message is `INVALID: <name>: <reason>`, with the parameter's or the tensor's name. Workers leave out
what has its default, so that an older engine refuses only what it would otherwise ignore.
"""

INPUT_IDS = "input_ids"
IMAGE_PIXELS = "image_pixels"
IMAGE_SHAPES = "image_shapes"
IMAGE_SPANS = "image_spans"
IMAGE_HASHES = "image_hashes"
IMAGES = (IMAGE_PIXELS, IMAGE_SHAPES, IMAGE_SPANS, IMAGE_HASHES)
"""What shows the pictures of a prompt: all of them, or none."""
PARAMETERS = "parameters"
TOKEN_IDS = "token_ids"
LOGPROBS = "logprobs"
TOP_IDS = "top_ids"
TOP_LOGPROBS = "top_logprobs"
PROMPT_LOGPROBS = "prompt_logprobs"
PROMPT_RANKS = "prompt_ranks"
PROMPT_TOP_IDS = "prompt_top_ids"
PROMPT_TOP_LOGPROBS = "prompt_top_logprobs"
FINISH_REASON = "finish_reason"
STOP_TOKEN_ID = "stop_token_id"

FINISH_STOP = "stop"
FINISH_LENGTH = "length"
FINISH_CANCELLED = "cancelled"
