"""From a JSON body to what the tokenizer and the worker are asked: validation, defaults, refusals. Pure."""
