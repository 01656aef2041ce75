"""The HTTP side: a body goes to a child, and what went wrong there becomes an answer.

Nothing here reads a prompt; `child_failures` passes over one that a child hung at.
"""
