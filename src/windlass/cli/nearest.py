"""The nearest known word to one that is not known, for messages that help."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that was probably meant."""
    import difflib  # noqa: PLC0415 - only a mistake needs it

    found = difflib.get_close_matches(word, list(known), n=1)
    return found[0] if found else None


def hint(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean …?`, or nothing."""
    meant = nearest(word, known)
    return "" if meant is None else f"; did you mean {meant}?"
