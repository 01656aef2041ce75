"""Finds out by small requests whether engines really answer.

A verdict is all that comes out of it; what follows from one is decided in `reconcile`.
"""
