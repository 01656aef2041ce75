"""Makes examples/tiny-clip: drawings and their descriptions near each other; training, folder, reference outputs."""
