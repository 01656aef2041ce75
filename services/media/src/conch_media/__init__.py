"""Fetches pictures by URL: the only process of Conch that connects to whatever a client has named."""
