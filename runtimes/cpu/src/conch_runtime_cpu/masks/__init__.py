"""Which ids a single request may get next: by a grammar, or by a limit on thinking."""
