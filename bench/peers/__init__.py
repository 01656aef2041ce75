"""Routers of the field before the same scripted worker; only `--peers` installs and measures them."""
