"""Everything that is not generation: embeddings, reranking, scores, classes, and tokens."""
