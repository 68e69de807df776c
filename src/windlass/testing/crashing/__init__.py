"""Crashing a user's own scenario at every moment at which a process can die."""
