"""The tensors of encoders: what the cpu runtime speaks, and how the usual exports of Hugging Face call them.

| tensor            | type, shape     | meaning                                                        |
|-------------------|-----------------|----------------------------------------------------------------|
| input_ids         | INT64 [B, S]    | the tokens of each row, padded at its end                      |
| attention_mask    | INT64 [B, S]    | 1 for a token, 0 for padding                                   |
| token_type_ids    | INT64 [B, S]    | 0 for the first text, 1 for the second of a pair               |
| last_hidden_state | FP32 [B, S, H]  | an embedding model's output, to be pooled                      |
| logits            | FP32 [B, L]     | a reranker's or classifier's output                            |

A model of texts and pictures takes batches of either, and its vectors have any length:

| tensor       | type, shape       | meaning                                 |
|--------------|-------------------|-----------------------------------------|
| pixel_values | FP32 [B, 3, S, S] | pictures, normalised; instead of texts  |
| text_embeds  | FP32 [B, D]       | the vector of each text                 |
| image_embeds | FP32 [B, D]       | the vector of each picture              |

A model that makes one vector of a text and the pictures in it gives `last_hidden_state`. A text with pictures is a
batch of its own, beside whose ids are `image_pixels`, `image_shapes`, `image_spans` and `image_hashes` as in
`conch_contracts.dialects.tokens`, each with a first dimension of 1.
"""

INPUT_IDS = "input_ids"
ATTENTION_MASK = "attention_mask"
TOKEN_TYPE_IDS = "token_type_ids"
INPUTS = (INPUT_IDS, ATTENTION_MASK, TOKEN_TYPE_IDS)
LAST_HIDDEN_STATE = "last_hidden_state"
LOGITS = "logits"
OUTPUTS = (LAST_HIDDEN_STATE, LOGITS)

ONNX_FILES = ("model.onnx", "onnx/model.onnx")
"""Where Hugging Face folders keep their ONNX file, in the order in which the cpu runtime looks for it."""

PIXEL_VALUES = "pixel_values"
TEXT_EMBEDS = "text_embeds"
IMAGE_EMBEDS = "image_embeds"
