"""The HTTP side of a service, raw ASGI: its internal and admin apps, and the scope of a request."""
