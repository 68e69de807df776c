"""Which file a path named when it was opened.

SQLite goes on with a file that was deleted or replaced: what it wrote would be lost, what it read no longer
true, and a connection opened later would be to another file.
"""

from __future__ import annotations

from os import stat
from pathlib import Path

from windlass.stores.sqlite.faults import not_there


class FileIdentity:
    """Device and inode of the file, learned when it was opened."""

    __slots__ = ("_known", "_name", "_path")

    def __init__(self, path: Path) -> None:
        self._name = path.name
        self._path = str(path)
        self._known: tuple[int, ...] = ()

    def learn(self) -> None:
        """Remember the file that the path names now.

        Raises:
            StoreUnavailable: it names none any more.
        """
        self._known = self._look()

    def check(self) -> None:
        """Refuse to go on with another file.

        Raises:
            StoreUnavailable: the path names another file, or none.
        """
        if self._look() != self._known:
            raise not_there(self._name)

    def _look(self) -> tuple[int, ...]:
        try:
            return stat(self._path)[1:3]  # noqa: PTH116 - inode and device; asked for every commit, and a Path costs ten frames
        except OSError:
            raise not_there(self._name) from None
