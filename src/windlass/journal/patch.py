"""Patches: how a plugin's state changes, so that the change can be recorded and applied again.

A patch is JSON that is laid over JSON: dicts merge key by key, None removes a key, anything else replaces. Two
leaves do more, because calls that run side by side each see the state from before: `add(n)` and `append(x)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass.kernel.value import Json

_ADD = "$add"
_APPEND = "$append"


def add(amount: float) -> Json:
    """Return a leaf that adds to the number that is there, or to 0."""
    return {_ADD: amount}


def append(*items: Json, keep: int | None = None) -> Json:
    """Return a leaf that appends to the list that is there; of the whole, the last `keep` stay."""
    return {_APPEND: [list(items), keep]}


def patched(base: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is there once a patch is laid over it; neither is changed."""
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
    if change.keys() == {_ADD}:
        return (before if isinstance(before, (int, float)) else 0) + change[_ADD]
    if change.keys() == {_APPEND}:
        items, keep = change[_APPEND]
        whole = [*(before if isinstance(before, list) else ()), *items]
        return whole if keep is None else whole[max(0, len(whole) - keep) :]
    return patched(before if isinstance(before, dict) else {}, change)
