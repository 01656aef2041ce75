"""Draws the pictures of the pages: each is described in a YAML file of docs/pictures and written beside it as SVG.

`boxes`, `sequence` and `timeline` are the three kinds; `canvas` is what they draw on. `drawing` reads a description. A
picture has a light ground of its own, so it can be read on a dark page too.
"""
