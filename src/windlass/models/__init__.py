"""Models: those of providers, and those that need none."""
