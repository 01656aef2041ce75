"""From ids to text: vocabularies, incremental detokenisation, stop strings. Only the cache reads files."""
