"""The HTTP/1.1 server of every service: connections within bounds, requests as ASGI, an end that cuts nobody off."""
