"""Finds out by small requests whether engines really answer."""
