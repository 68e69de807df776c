"""Patches: how a plugin's state changes, so that the change can be recorded and applied again.

A patch is JSON that is laid over JSON: dicts merge key by key, None removes a key, anything else replaces. Two
leaves do more, because calls that run side by side each see the state from before: `add(n)` and `append(x)`.

Law 1. What was recorded can be laid over anything: it never raises.
Law 2. Only `add` and `append` make such leaves. Data that looks like one, perhaps because a model wrote it, is data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass.errors import InvalidInput
from windlass.kernel.value import Json

_ADD = "$add"
_APPEND = "$append"
_DATA = "$data"


class Leaf(dict[str, Json]):
    """A leaf that does more than replace. Made by `add` and `append`."""

    __slots__ = ()


def add(amount: float) -> Leaf:
    """Return a leaf that adds to the number that is there, or to 0."""
    if isinstance(amount, bool) or not isinstance(amount, (int, float)):
        found = type(amount).__name__
        raise InvalidInput(f"add: found {found}, wanted a number", field="add", found=found)
    return Leaf({_ADD: amount})


def append(*items: Json, keep: int | None = None) -> Leaf:
    """Return a leaf that appends to the list that is there; of the whole, the last `keep` stay."""
    if keep is not None and (type(keep) is not int or keep < 0):
        raise InvalidInput("append: keep: wanted a whole number of 0 or more", field="keep")
    return Leaf({_APPEND: [list(items), keep]})


def recorded(patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return a patch as it is written down: data that looks like a leaf is marked as data."""
    return {key: _marked(change) for key, change in patch.items()}


def _marked(change: Json) -> Json:
    if not isinstance(change, Mapping) or isinstance(change, Leaf):
        return change
    if any(isinstance(key, str) and key.startswith("$") for key in change):
        return Leaf({_DATA: dict(change)})
    return {key: _marked(item) for key, item in change.items()}


def patched(base: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is there once a recorded patch is laid over it; neither is changed."""
    made = dict(base)
    for key, change in patch.items():
        if change is None:
            made.pop(key, None)
        else:
            made[key] = _changed(made.get(key), change)
    return made


def _changed(before: Json, change: Json) -> Json:
    if not isinstance(change, dict):
        return change
    match change:
        case {"$data": data} if len(change) == 1:
            return data
        case {"$add": int() | float() as amount} if len(change) == 1:
            is_number = isinstance(before, (int, float)) and not isinstance(before, bool)
            return (before if is_number else 0) + amount
        case {"$append": [list() as items, keep]} if len(change) == 1:
            whole = [*(before if isinstance(before, list) else ()), *items]
            return whole[max(0, len(whole) - keep) :] if isinstance(keep, int) else whole
    return patched(before if isinstance(before, dict) else {}, change)
