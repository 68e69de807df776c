"""The options of plugins: a wrong one is refused by its name when the plugin is built."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any, TypeGuard, TypeVar

from windlass.errors import ConfigError
from windlass.guards.text import is_clean
from windlass.kernel.tool_call import is_tool_name

C = TypeVar("C", bound=str)
_MOST_S = 3.2e11


def whole(found: object, *, field: str, low: int = 0, high: float = inf, of: str = "") -> int:
    """Return a whole number that is not below `low`, nor above `high`; `of` says of what, in a refusal.

    Raises:
        ConfigError: it is not one.
    """
    if isinstance(found, int) and not isinstance(found, bool) and low <= found <= high:
        return found
    wanted = f"of {low} or more" if high == inf else f"from {low} to {high:,}"
    raise refused(found, f"a whole number {of}{wanted}", field=field)


def number(found: object, low: float, high: float, *, field: str) -> float:
    """Return a number from `low` to `high`.

    Raises:
        ConfigError: it is not one.
    """
    if is_number(found) and low <= found <= high:
        return float(found)
    raise refused(found, f"a number from {low:g} to {high:g}", field=field)


def share(found: object, *, field: str) -> float:
    """Return a share of a whole, which is not nothing.

    Raises:
        ConfigError: it is not one.
    """
    if is_number(found) and 0 < found <= 1:
        return float(found)
    raise refused(found, "a share above 0, at most 1", field=field)


def seconds(found: object, *, field: str) -> float:
    """Return a time, which is not nothing and has an end that a clock can show.

    Raises:
        ConfigError: it is not one.
    """
    if is_number(found) and 0 < found <= _MOST_S:
        return float(found)
    raise refused(found, "seconds above 0", field=field)


def choice(found: C, wanted: tuple[str, ...], *, field: str) -> C:
    """Return one of a few words.

    Raises:
        ConfigError: it is another.
    """
    if isinstance(found, str) and found in wanted:
        return found
    shown = found[:40] if isinstance(found, str) else type(found).__name__
    raise ConfigError.at(field, shown, " or ".join(wanted))


def words(found: object, *, field: str) -> str:
    """Return text for a model.

    Raises:
        ConfigError: it is not text, or empty.
    """
    if isinstance(found, str) and found.strip() and is_clean(found):
        return found
    raise refused(found, "text that is not empty", field=field)


def tool_names(found: object, *, field: str) -> frozenset[str]:
    """Return names of tools.

    Raises:
        ConfigError: they are not, or are a single text, whose letters would be taken for names.
    """
    if isinstance(found, (list, tuple, set, frozenset)) and all(map(is_tool_name, found)):
        return frozenset(found)
    raise refused(found, "a list of tools' names", field=field)


def tool_name(found: object, *, field: str) -> str:
    """Return the name of a tool.

    Raises:
        ConfigError: not every provider takes it.
    """
    if isinstance(found, str) and is_tool_name(found):
        return found
    wanted = "a letter or _, then up to 63 of A-Z a-z 0-9 _ -"
    raise ConfigError.at(field, "another kind of name", wanted)


def by_tool(found: object, *, field: str) -> Mapping[str, Any]:
    """Return what was given for single tools; None means nothing.

    Raises:
        ConfigError: it is not a mapping from tools' names.
    """
    if found is None:
        return {}
    if isinstance(found, Mapping) and all(is_tool_name(name) for name in found):
        return dict(found)
    raise refused(found, "a mapping from tools' names", field=field)


def refused(found: object, wanted: str, *, field: str) -> ConfigError:
    """Return the refusal of an option, which shows a number that was found and the type of anything else."""
    return ConfigError.at(field, found if is_number(found) else type(found).__name__, wanted)


def is_number(found: object) -> TypeGuard[float]:
    """Whether it is a number; True and False are none."""
    return isinstance(found, (int, float)) and not isinstance(found, bool)
