"""What the two adapters to OpenAI's protocols share."""
