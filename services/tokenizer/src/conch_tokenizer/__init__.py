"""The only place in Conch where text becomes token ids."""
