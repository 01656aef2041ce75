"""Draws the pictures that the example models of pictures know, and says what is in them; needs numpy alone."""
