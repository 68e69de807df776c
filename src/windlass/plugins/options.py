"""What a plugin may be given: refused when it is built, by the option's name."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any, TypeVar

from windlass.errors import ConfigError
from windlass.guards.text import is_clean
from windlass.kernel.tool_call import is_tool_name

C = TypeVar("C", bound=str)


def whole(found: object, *, field: str, low: int = 0, high: float = inf) -> int:
    """Return a whole number that is not below `low`, nor above `high`.

    Raises:
        ConfigError: it is not one.
    """
    if isinstance(found, int) and not isinstance(found, bool) and low <= found <= high:
        return found
    wanted = f"of {low} or more" if high == inf else f"from {low} to {high}"
    raise _refused(found, f"a whole number {wanted}", field)


def choice(found: C, wanted: tuple[str, ...], *, field: str) -> C:
    """Return one of a few words.

    Raises:
        ConfigError: it is another.
    """
    if isinstance(found, str) and found in wanted:
        return found
    shown = found[:40] if isinstance(found, str) else type(found).__name__
    listed = " or ".join(wanted)
    raise ConfigError(
        f"{field}: found {shown}, wanted {listed}", field=field, found=shown, wanted=listed
    )


def words(found: object, *, field: str) -> str:
    """Return text that can be said to a model.

    Raises:
        ConfigError: it is none, or says nothing.
    """
    if isinstance(found, str) and found.strip() and is_clean(found):
        return found
    raise _refused(found, "text that is not empty", field)


def tool_names(found: object, *, field: str) -> frozenset[str]:
    """Return names of tools.

    Raises:
        ConfigError: they are none, or a single text, whose letters would be taken for names.
    """
    if isinstance(found, (list, tuple, set, frozenset)) and all(map(is_tool_name, found)):
        return frozenset(found)
    raise _refused(found, "a list of tools' names", field)


def by_tool(found: object, *, field: str) -> Mapping[str, Any]:
    """Return what was given for single tools; None means nothing.

    Raises:
        ConfigError: it is no mapping from tools' names.
    """
    if found is None:
        return {}
    if isinstance(found, Mapping) and all(is_tool_name(name) for name in found):
        return dict(found)
    raise _refused(found, "a mapping from tools' names", field)


def _refused(found: object, wanted: str, field: str) -> ConfigError:
    is_number = isinstance(found, (int, float)) and not isinstance(found, bool)
    shown = found if is_number else type(found).__name__
    return ConfigError(
        f"{field}: found {shown}, wanted {wanted}", field=field, found=shown, wanted=wanted
    )
