"""Pictures of chats: the bytes of a file become what an engine takes of it.

In which text they stand is the affair of `text`.
"""
