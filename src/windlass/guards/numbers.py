"""Numbers from outside: seconds that a clock can count."""

from __future__ import annotations

import math

from windlass.errors import InvalidInput

# Ten thousand years: beyond it no store and no timer keeps a time.
_MAX_SECONDS = 3.2e11


def check_seconds(found: object, *, field: str) -> None:
    """Refuse what is neither None nor a finite number of seconds from 0 on.

    Raises:
        InvalidInput: naming the field.
    """
    if found is None:
        return
    is_number = isinstance(found, (int, float)) and not isinstance(found, bool)
    if is_number and math.isfinite(found) and 0 <= found <= _MAX_SECONDS:  # type: ignore[arg-type,operator]  # a number
        return
    shown = found if is_number else type(found).__name__
    raise InvalidInput(
        f"{field}: found {shown}, wanted seconds of 0 or more",
        field=field,
        found=shown,
        wanted="seconds of 0 or more",
    )
