"""Emphasis."""


def strong(text: str) -> str:
    return f"**{text}**"
