"""What a turn may use before it ends with `Stopped("limit")` or `Stopped("max_iterations")`."""

from __future__ import annotations

import math

from windlass.errors import InvalidInput
from windlass.kernel.value import Value

_HOUR = 3600.0


class Limits(Value, kw_only=True):
    """Limits of one turn; None: no limit. Times are in seconds.

    `provider_patience` is how long a turn waits for a provider that is down, `approval_timeout` how long for
    a person, after which the call is denied.
    """

    max_iterations: int | None = 50
    max_tool_calls: int | None = None
    max_tokens: int | None = None
    max_seconds: float | None = None
    max_parallel: int = 32
    tool_timeout: float | None = None
    approval_timeout: float | None = None
    provider_patience: float = _HOUR
    output_retries: int = 2

    def __post_init__(self) -> None:
        """Refuse what is no limit."""
        for name in ("max_iterations", "max_tool_calls", "max_tokens"):
            _check_count(getattr(self, name), f"Limits.{name}", low=0)
        _check_count(self.max_parallel, "Limits.max_parallel", low=1)
        _check_count(self.output_retries, "Limits.output_retries", low=0)
        _check_time(self.max_seconds, "Limits.max_seconds", low=0.0)
        _check_time(self.provider_patience, "Limits.provider_patience", low=0.0)
        for name in ("tool_timeout", "approval_timeout"):
            _check_time(getattr(self, name), f"Limits.{name}", low=None)


def _check_count(found: object, field: str, *, low: int) -> None:
    if found is None and low == 0:
        return
    if type(found) is not int or found < low:
        shown = found if isinstance(found, (int, float)) else type(found).__name__
        wanted = f"a whole number of {low} or more"
        raise InvalidInput(
            f"{field}: found {shown}, wanted {wanted}", field=field, found=shown, wanted=wanted
        )


def _check_time(found: object, field: str, *, low: float | None) -> None:
    if found is None:
        return
    if isinstance(found, (int, float)) and not isinstance(found, bool) and math.isfinite(found):
        if found > 0 or found == low:
            return
        shown: object = found
    else:
        shown = found if isinstance(found, (int, float)) else type(found).__name__
    wanted = "seconds above 0" if low is None else "seconds of 0 or more"
    raise InvalidInput(
        f"{field}: found {shown}, wanted {wanted}", field=field, found=shown, wanted=wanted
    )


DEFAULT_LIMITS = Limits()
