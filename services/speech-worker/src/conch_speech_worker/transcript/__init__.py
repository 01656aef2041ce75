"""Pure: from what an engine heard to segments and words, and from these to every form of an answer.

All forms are made of the same segments, so that the text of an answer does not depend on its form.
"""
