"""Blobs: bytes by digest. Small ones are rows, large ones files beside the database.

Law 1. A row that names a file is written after the file and its folder are on disk.
Law 2. A file is removed after the row that named it is gone. What is left over by a crash between the two is a
    file that no row names; vacuum removes it once it is a day old.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from windlass.errors import InvalidInput, StoreContended
from windlass.stores.sqlite.connection import corrupt, first
from windlass.stores.sqlite.files import create_file, make_folder
from windlass.stores.sqlite.rows import Rows

MAX_ROW_BYTES = 1024 * 1024
DAY_MS = 24 * 60 * 60 * 1000
_REWRITE = os.O_WRONLY | os.O_TRUNC


class BlobFolder:
    """Where large blobs lie, by digest: a folder beside the database file."""

    __slots__ = ("file", "folder")

    def __init__(self, file: Path) -> None:
        self.file = file
        self.folder = file.with_name(f"{file.name}-blobs")

    def write(self, digest: str, data: bytes) -> None:
        """Put a file there, whole and synced with its folder, or not at all."""
        target = self.folder / digest
        with suppress(FileNotFoundError):
            os.utime(target)  # young again: no sweep takes it from under this put
            _sync(
                self.folder
            )  # the process that put it there may have died before its folder was on disk
            return
        make_folder(self.folder, beside=self.file)
        unfinished = self.folder / f"{digest}.{os.getpid()}.part"
        try:
            with os.fdopen(create_file(unfinished, _REWRITE, beside=self.file), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(target)
        except BaseException:
            with suppress(OSError):
                unfinished.unlink()
            raise
        _sync(self.folder)

    def read(self, digest: str) -> bytes:
        """Return the bytes of a file.

        Raises:
            JournalCorrupt: it is missing, or not what was written.
        """
        try:
            data = (self.folder / digest).read_bytes()
        except FileNotFoundError:
            raise corrupt(f"blob {digest[:12]}", "its file is missing") from None
        return check(digest, data)

    def remove(self, digest: str) -> None:
        """Remove a file that no row names."""
        with suppress(FileNotFoundError):
            (self.folder / digest).unlink()

    def listing(self) -> list[Path] | None:
        """Return the files; None if they cannot be listed, which is not the same as none."""
        try:
            return sorted(self.folder.iterdir())
        except FileNotFoundError:
            return []
        except OSError:
            return None


def check(digest: str, data: bytes) -> bytes:
    """Return bytes that are those of their digest."""
    if sha256(data).hexdigest() != digest:
        raise corrupt(f"blob {digest[:12]}", "its bytes are not those of its digest")
    return data


def keep(
    rows: Rows, folder: BlobFolder, digest: str, size: int, data: bytes | None, now_ms: int
) -> None:
    """Name a blob; `data` is None when it is a file."""
    if data is None and not (folder.folder / digest).exists():
        # Files go only under the write lock, which is held here: it went just before.
        raise StoreContended(f"blob {digest[:12]}: was swept while it was put; put it again")
    rows.db.execute(
        "INSERT INTO bodies (digest, is_blob, kept_ms, size, data) VALUES (?, 1, ?, ?, ?)"
        " ON CONFLICT (digest, is_blob) DO UPDATE SET kept_ms = max(kept_ms, excluded.kept_ms)",
        (bytes.fromhex(digest), now_ms, size, data),
    )


def find(rows: Rows, digest: str) -> bytes | None:
    """Return the bytes of a blob; None if it is a file.

    Raises:
        InvalidInput: there is none of this digest.
    """
    try:
        raw = bytes.fromhex(digest)
    except (TypeError, ValueError):
        raw = b""
    found = first(rows.db, "SELECT data FROM bodies WHERE digest = ? AND is_blob = 1", (raw,))
    if found is None:
        raise InvalidInput("digest: there is no blob of this digest in this store", field="digest")
    return None if found[0] is None else check(digest, bytes(found[0]))


def remove_unnamed(rows: Rows, folder: BlobFolder, digests: Iterable[str]) -> None:
    """Remove the files of blobs that no row names any more; under the write lock, so that none can."""
    for digest in digests:
        named = first(
            rows.db,
            "SELECT 1 FROM bodies WHERE digest = ? AND is_blob = 1",
            (bytes.fromhex(digest),),
        )
        if named is None:
            folder.remove(digest)


def sweep(rows: Rows, folder: BlobFolder, now_ms: int) -> None:
    """Remove files that a crash left over: of no row, or never finished, and a day old."""
    for path in folder.listing() or ():
        if path.stat().st_mtime * 1000 >= now_ms - DAY_MS:
            continue
        if path.suffix == ".part":
            path.unlink(missing_ok=True)
        elif len(path.name) == 64:
            remove_unnamed(rows, folder, (path.name,))


def _sync(folder: Path) -> None:
    """Bring to disk what a folder holds, and that it is there."""
    for path in (folder, folder.parent):
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
