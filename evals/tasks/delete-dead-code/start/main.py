"""Greets."""

from names import polite

print(polite("Ada"))
