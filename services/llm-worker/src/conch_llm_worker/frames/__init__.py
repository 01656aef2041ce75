"""Server-sent events of streamed completions, as the exact bytes that clients get. Pure."""
