"""From a step's logits to the next token of every request: penalties and bias, top_k and top_p, log probabilities.

Pure numpy.
"""
