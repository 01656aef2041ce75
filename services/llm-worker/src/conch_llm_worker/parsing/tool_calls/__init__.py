"""Calls of tools as models write them: one module for each family's form, and what several of them share. Pure."""
