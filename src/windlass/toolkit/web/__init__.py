"""The web: pages as Markdown, and searches. All of it leaves by the door of `windlass.net`."""
