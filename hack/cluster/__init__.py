"""Gives development and tests a Kubernetes: one that is there, one in Docker, or a real node on this machine.

`choice` picks which; `given`, `docker` and `local` each know one; `product` puts Conch on it. Only the standard library
is used, because this runs before anything is installed.
"""
