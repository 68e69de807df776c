"""Keys of providers: the command may show their names, never their values.

Everything the program writes goes through `clean`, however a key got into the text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from windlass.guards.secret import Redactor, Secret

# A shorter value is a word that people use, such as "password"; keys of providers are longer.
_MIN_CHARS: Final = 12
_LOOKS_SECRET: Final = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS?)$")


def environment() -> Mapping[str, str]:
    """Return the environment of this process; commands read it nowhere else."""
    return os.environ  # noqa: TID251 - the command line passes it down


def secrets() -> tuple[Secret, ...]:
    """Return the value of every variable that looks like a key."""
    return _known(_found()).secrets


def clean(text: str) -> str:
    """Return `text` without the value of any variable that looks like a key."""
    return _known(_found()).clean(text)


def _found() -> tuple[tuple[str, str], ...]:
    return tuple(
        (name, value)
        for name, value in environment().items()
        if len(value) >= _MIN_CHARS and _LOOKS_SECRET.search(name.upper())
    )


@lru_cache(maxsize=1)
def _known(found: tuple[tuple[str, str], ...]) -> Redactor:
    return Redactor([Secret(value, name=name) for name, value in found])
