"""The turn runner and what it is made of."""
