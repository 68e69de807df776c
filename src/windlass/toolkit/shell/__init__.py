"""Shell commands: each with a keeper of its own, which leaves no process of it behind."""
