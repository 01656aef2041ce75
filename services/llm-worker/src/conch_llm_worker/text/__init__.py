"""From ids to text: vocabularies, incremental detokenising, stop strings. Only the cache reads files."""
