"""Makes examples/tiny-whisper: what it hears, its training on windows of 30 s, the folder and its reference outputs."""
