"""What a model writes down: notes of its session, a list of what is to be done, a memory across sessions."""
