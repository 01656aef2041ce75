"""Answers of Anthropic's Messages API: blocks of content as they grow, the message around them, a stream's events."""
