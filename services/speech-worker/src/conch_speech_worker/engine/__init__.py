"""Has engines hear windows, in the dialect of their model."""
