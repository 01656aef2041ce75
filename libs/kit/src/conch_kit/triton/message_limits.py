"""How large an engine's messages may be: engines may be other people's, and all models share who reads them.

What is parsed takes far more memory than its bytes: a repository index of empty rows 44 times as much, JSON 24 times.
"""

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""Of an answer, nearly all of which is packed tensors."""
MAX_CONTROL_BYTES = 1024 * 1024
"""Of what is about a model: its config, the repository index, the JSON before packed tensors, an error."""
MAX_PROBE_BYTES = 4 * 1024 * 1024
"""Of an answer to a request of one token or one row, which the operator makes."""
