"""Server-sent events of streamed chat and text completions, as the exact bytes that clients get."""
