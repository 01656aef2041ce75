"""Chat and text completions from body to answer, as one list of steps; each step lives in another folder.

`responses` builds on it.
"""
