"""What people start from a terminal. The only layer that prints."""
