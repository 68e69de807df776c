"""Versions that users give to what they write: noted with each turn, so they have to be read again."""

from __future__ import annotations

from windlass.errors import ConfigError
from windlass.guards.text import is_clean


def check_version(found: object, *, field: str) -> None:
    """Refuse what could be written down and never be read again: 1 is a number, "1" a version.

    Raises:
        ConfigError: it is no text.
    """
    if isinstance(found, str) and is_clean(found):
        return
    kind, wanted = type(found).__name__, 'clean text, such as "1"'
    raise ConfigError(
        f"{field}: found {kind}, wanted {wanted}", field=field, found=kind, wanted=wanted
    )
