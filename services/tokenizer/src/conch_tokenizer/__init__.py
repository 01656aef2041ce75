"""The tokenizer service: the only place in Conch where text becomes token ids."""
