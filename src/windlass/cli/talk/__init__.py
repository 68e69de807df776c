"""A conversation in a terminal: what is read, what is shown, and the turn in between."""
