"""How the gateway calls tokenizers and workers: one small Protocol, an own pool on httptools, and aiohttp beside it."""
