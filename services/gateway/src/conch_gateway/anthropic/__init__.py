"""Anthropic's Messages API, by way of chat: from the body of a request to its answer.

What its answers look like is the llm-worker's; what its errors look like is `answers/protocols.py`.
"""
