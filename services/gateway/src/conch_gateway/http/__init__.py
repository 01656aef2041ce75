"""The client's side of HTTP: bodies, API keys, origins, what a request is known by. No model is known here."""
