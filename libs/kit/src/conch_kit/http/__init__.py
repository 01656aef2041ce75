"""The HTTP side of every service, raw ASGI: internal and admin apps, bodies, and what interrupts a request."""
