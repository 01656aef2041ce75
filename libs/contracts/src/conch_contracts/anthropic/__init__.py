"""Anthropic's Messages API: what clients send and get on `/v1/messages`.

Its meaning is that of https://platform.claude.com/docs/en/api/messages; the sources of single rules stand at the types.
"""
