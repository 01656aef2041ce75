"""Takes the text of an answer apart while it comes: thinking, content, and calls of tools. Pure.

`answer_reader` is what the rest of the worker uses. A parser is a generator that reads from a `text_buffer` and pauses
where the text ends, so that it can be written as a list of steps although the text comes in pieces. It finds
`answer_events`, the same ones however the text was cut. `reasoning` and `tool_calls` are the formats.
"""
