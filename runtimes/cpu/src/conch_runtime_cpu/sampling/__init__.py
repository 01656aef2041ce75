"""From a step's logits to the next token of every request: penalties, drawing, log probabilities. Pure numpy."""
