"""The bars that a whole runtime is held to: each measured beside its floor, in one run."""
