"""Stores: where rows live. Each keeps the laws of `windlass.ports.store` and passes its suite."""
