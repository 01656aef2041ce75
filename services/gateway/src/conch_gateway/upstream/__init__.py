"""How the gateway calls tokenizers and workers: one small Protocol, and a pool of connections on httptools."""
