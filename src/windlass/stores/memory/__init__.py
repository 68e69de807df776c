"""The store in memory: the reference that the others are compared with."""

from windlass.stores.memory.store import MemoryStore

__all__ = ["MemoryStore"]
