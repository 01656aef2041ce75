"""Pure: what Triton servers get on every cluster: options, the text of a config.pbtxt, a cpu engine's repository.

Nothing here starts a server or writes a file.
"""
