"""Makes examples/tiny-vlm: tiny-chat learns to see drawings; training, the folder and its reference outputs."""
