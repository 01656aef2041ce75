"""Requests and answers of the endpoints for encoders: embeddings, reranking, scores and classes."""
