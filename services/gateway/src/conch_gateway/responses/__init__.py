"""The Responses API: from items to a chat request, and what is kept of an answer until a client comes back to it.

The chat request itself is served by `generation`.
"""
