"""Which file a path named when it was opened.

SQLite goes on with a file that was deleted or replaced: what it wrote would be lost, what it read no longer
true, and a connection opened later would be to another file.
"""

from __future__ import annotations

from pathlib import Path

from windlass.stores.sqlite.faults import not_there


class FileIdentity:
    """Device and inode of the file, learned when it was opened."""

    __slots__ = ("_known", "_path")

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: tuple[int, int] | None = None

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
            raise not_there(self._path.name)

    def _look(self) -> tuple[int, int]:
        try:
            status = self._path.stat()
        except OSError:
            raise not_there(self._path.name) from None
        return status.st_dev, status.st_ino
