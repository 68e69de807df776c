"""Keys of providers: their names may be told, their values never.

Whatever this program shows is cleaned of the values that stand in its environment, however they got into the text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from windlass.errors import ConfigError
from windlass.guards.secret import Redactor, Secret

_LOOKS_SECRET: Final = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS?)$")


def environment() -> Mapping[str, str]:
    """Return the environment of this process; the one place of the command that reads it."""
    return os.environ  # noqa: TID251 - the command is who passes it down


def clean(text: str) -> str:
    """Return `text` without the value of any variable that looks like a key."""
    found = tuple(
        (name, value)
        for name, value in environment().items()
        if value and _LOOKS_SECRET.search(name.upper())
    )
    return _redactor(found).clean(text)


@lru_cache(maxsize=1)
def _redactor(found: tuple[tuple[str, str], ...]) -> Redactor:
    secrets = []
    for name, value in found:
        try:
            secrets.append(Secret(value, name=name))
        except ConfigError:
            continue  # too short to be told from ordinary words
    return Redactor(secrets)
