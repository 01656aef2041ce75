"""The public door of Conch: OpenAI requests in, streamed answers out."""
