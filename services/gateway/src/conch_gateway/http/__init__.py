"""The client's side of HTTP: the server protocol and its limits, bodies, API keys, origins. No model is known here."""
