"""Changes: what a unit did to the rows so far, to be taken back if a later part of it is refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Changes:
    """Changes rows and remembers how to change them back."""

    __slots__ = ("_back", "_last")

    def __init__(self) -> None:
        self._back: list[Callable[[], object]] = []
        self._last: list[Callable[[], object]] = []

    def set(self, row: object, **fields: object) -> None:
        """Set fields of a row."""
        for name, value in fields.items():
            self._back.append(partial(setattr, row, name, getattr(row, name)))
            setattr(row, name, value)

    def add(self, mapping: dict[K, V], key: K, value: V) -> None:
        """Put a new key into a dict."""
        mapping[key] = value
        self._back.append(partial(mapping.pop, key))

    def remove(self, mapping: dict[K, V], key: K) -> None:
        """Take a key out of a dict; taken back, it stands in its old place."""
        before = dict(mapping)
        del mapping[key]

        def back() -> None:
            mapping.clear()
            mapping.update(before)

        self._back.append(back)

    def append(self, items: list[V], value: V) -> None:
        """Put a value at the end of a list."""
        items.append(value)
        self._back.append(items.pop)

    def at_last(self, step: Callable[[], object]) -> None:
        """Do this when nothing can be refused any more."""
        self._last.append(step)

    def keep(self) -> None:
        """Do what was left for last; from here on nothing is taken back."""
        for step in self._last:
            step()
        self._last.clear()
        self._back.clear()

    def take_back(self) -> None:
        """Leave the rows as they were."""
        for step in reversed(self._back):
            step()
        self._back.clear()
        self._last.clear()
