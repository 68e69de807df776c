"""The SQLite store: one file, no server, several processes."""

from windlass.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
