"""Everything that is not generation: embeddings, reranking, scores, classes, and the token endpoints.

What generation needs too lives in `requests`, `inference`, `placement` and `answers`.
"""
