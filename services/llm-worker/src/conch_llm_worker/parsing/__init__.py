"""Takes the text of an answer apart while it comes: thinking, content, and calls of tools. Pure.

`reader` is what the rest of the worker uses. A parser is a generator that reads from a `tape` and pauses where the text
ends, so that it can be written as a list of steps although the text comes in pieces; what it finds are `events`, and
they are the same however the text was cut. `reasoning` and `families` are the formats.
"""
