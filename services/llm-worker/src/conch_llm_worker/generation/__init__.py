"""One choice while it is made: what it adds to the answer with each message of its engine, and what ends it. Pure."""
