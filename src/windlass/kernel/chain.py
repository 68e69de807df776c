"""A sequence that grows without copying and knows its digest.

Histories reach thousands of messages and every iteration hands the whole history to the model, to
observers and into a snapshot. A tuple would be copied each time; a `Chain` is a length over storage
that it shares with every chain it grew from, so appending, keeping a version and taking the digest of
the next version all cost what is new, whatever the length.

Law 1. A chain never changes. Appending returns a longer one; the shorter one stays as it was.
Law 2. Only the longest chain over a storage may grow in place, and none if the storage has an owner.
    Any other copies its part first, unless it appends what stands there already, as a replay does.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import islice
from typing import Any, Generic, TypeVar, get_args, overload

import msgspec

from windlass.errors import InvalidInput
from windlass.kernel import canonical

T = TypeVar("T")
M = TypeVar("M")

_new = object.__new__
_OWNED = -1
_EMPTY = sha256(b"").hexdigest()
# A memo belongs to one reader of the history (a projector with its prompt, the history check).
# A prompt that changes leaves a stale one behind; the oldest goes first.
_MAX_MEMOS = 4


class _Storage(Generic[T]):
    """What chains share: items, their digests and links as far as asked for, readers' memos."""

    __slots__ = ("digests", "items", "links", "memos", "tip")

    def __init__(self, items: list[T]) -> None:
        self.items = items
        # The length of the one chain that may grow in place; none may while the storage has an owner.
        self.tip = len(items)
        # Empty text where it was not computed, because the digest of a longer chain was known.
        self.digests: list[str] = []
        self.links: list[str] = []
        self.memos: dict[Any, Any] = {}


class Chain(Sequence[T]):
    """An immutable sequence with cheap `append` and a cached chain digest."""

    __slots__ = ("_storage", "length")

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._storage = _Storage(list(items))
        self.length = len(self._storage.items)

    @classmethod
    def of(cls, items: Iterable[T]) -> Chain[T]:
        """Return `items` as a chain; a chain is returned as it is, sharing its storage."""
        return items if type(items) is Chain else cls(items)

    def append(self, item: T) -> Chain[T]:
        """Return this chain with `item` at its end."""
        storage = self._storage
        length = self.length
        if storage.tip != length:
            if storage.tip > length and _is_same(storage.items[length], item):
                return self.prefix(length + 1)
            return self._copied().append(item)
        storage.items.append(item)
        longer: Chain[T] = _new(Chain)
        longer._storage = storage
        longer.length = storage.tip = length + 1
        return longer

    def with_tail(self, item: T) -> Chain[T]:
        """Like `append`, for an item that the next version will not have.

        It never grows the shared storage, so the version that drops the item need not copy.
        """
        return self._copied().append(item)

    def grower(self) -> Callable[[T], None]:
        """Return a function that puts an item behind the end of this chain's storage.

        From then on the caller owns the storage: no chain over it grows in place any more. The chain
        itself stays as it is; `prefix` with a greater length shows what was added.
        """
        self._storage.tip = _OWNED
        return self._storage.items.append

    def prefix(self, length: int) -> Chain[T]:
        """Return the first `length` items of the storage, sharing it."""
        chain: Chain[T] = _new(Chain)
        chain._storage = self._storage
        chain.length = length
        return chain

    @property
    def n_held(self) -> int:
        """How many items are held in memory for it, with those that only longer chains show."""
        return len(self._storage.items)

    def memo(self, key: Hashable, make: Callable[..., M], *given: object) -> M:
        """Return the object that a reader keeps with the shared storage, made of what is given on first use.

        It may hold what was derived from items already there, since those never change. It sees
        chains of every length over this storage.
        """
        memos = self._storage.memos
        kept: M | None = memos.get(key)
        if kept is None:
            if len(memos) >= _MAX_MEMOS:
                del memos[next(iter(memos))]
            kept = memos[key] = make(*given)
        return kept

    def item_digest(self, index: int) -> str:
        """Return the digest of one item, computed once for all chains that share it."""
        if not 0 <= index < self.length:
            raise IndexError(index)
        self._extend_links()
        return self._storage.digests[index] or canonical.digest(self[index])

    def chain_digest(self) -> str:
        """Return the digest of the whole sequence (`canonical`, Law 4)."""
        if not self.length:
            return _EMPTY
        self._extend_links()
        return self._storage.links[self.length - 1] or Chain(self).chain_digest()

    def take_digest(self, digest: str) -> None:
        """Set the digest of the whole sequence, as it was computed earlier for the same items."""
        storage = self._storage
        n_new = self.length - len(storage.links)
        if n_new > 0:
            storage.digests += [""] * n_new
            storage.links += [""] * n_new
            storage.links[-1] = digest

    def canonical_items(self) -> tuple[T, ...]:
        """Return the items as `canonical.encode` writes them."""
        return tuple(self)

    @classmethod
    def from_canonical(cls, type_: object, items: object) -> Chain[T]:
        """Build the chain that `canonical.decode` read; `type_` is `Chain[Item]`."""
        (item,) = get_args(type_)
        try:
            return cls(msgspec.convert(items, list[item]))  # type: ignore[valid-type]
        except msgspec.ValidationError as error:
            # As a plain ValueError the decoder adds the path of the chain itself.
            raise ValueError(str(error)) from error.__cause__

    def _extend_links(self) -> None:
        storage = self._storage
        links = storage.links
        previous = links[-1] if links else _EMPTY
        for item in self.since(len(links)):
            item_digest = canonical.digest(item)
            previous = canonical.link(previous, item_digest)
            storage.digests.append(item_digest)
            links.append(previous)

    def _copied(self) -> Chain[T]:
        """Return an equal chain with storage of its own."""
        old, length = self._storage, self.length
        copied = Chain(old.items[:length])
        copied._storage.digests = old.digests[:length]
        copied._storage.links = old.links[:length]
        return copied

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[T]:
        return islice(self._storage.items, self.length)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        if isinstance(index, slice):
            return tuple(self._storage.items[: self.length][index])
        # The storage may be longer; a range knows the places of this chain.
        return self._storage.items[range(self.length)[index]]

    def last(self) -> T:
        """Return the last item."""
        return self._storage.items[self.length - 1]

    def since(self, start: int) -> list[T]:
        """Return the items from `start` on; costs what it returns, as a slice does not."""
        return self._storage.items[start : self.length]

    def __add__(self, other: object) -> Chain[T]:
        """Return this chain with the items of another sequence at its end, as a tuple would."""
        if not isinstance(other, (Chain, tuple, list)):
            return NotImplemented
        longer = self
        for item in other:
            longer = longer.append(item)
        return longer

    def __radd__(self, other: object) -> Chain[T]:
        """Return a new chain that begins with the items of another sequence."""
        return Chain([*other, *self]) if isinstance(other, (tuple, list)) else NotImplemented

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Chain):
            if other._storage is self._storage:
                return other.length == self.length
            return self.length == other.length and all(map(_equal, self, other))
        if isinstance(other, (tuple, list)):
            return self.length == len(other) and all(map(_equal, self, other))
        return NotImplemented

    # Equal to a list or tuple with the same items, and lists have no hash.
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self[-3:]))
        return f"Chain({'… ' if self.length > 3 else ''}{shown}; {self.length} items)"


def as_chain(items: object, *, field: str) -> Chain[Any]:
    """Return what a caller gave as a chain.

    Raises:
        InvalidInput: it is not a sequence.
    """
    if type(items) is Chain or isinstance(items, Iterable):
        return Chain.of(items)
    raise InvalidInput.at(field, type(items).__name__, "a sequence")


def _equal(left: object, right: object) -> bool:
    return left is right or left == right


def _is_same(left: object, right: object) -> bool:
    """Whether two items have one digest; equal ones may not, as 1 and True are equal."""
    return _equal(left, right) and canonical.encode(left) == canonical.encode(right)
