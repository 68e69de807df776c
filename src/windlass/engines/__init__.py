"""Engines: who drives turns, and who goes on with them when a worker is gone."""
