"""Bytes on their way into the file and out of it: pages of the log with their long texts apart, and small payloads.

Everything that goes into the file passes the encoder, and no registered secret does. A small payload beside the log
is `WL1 <32 bytes of SHA-256> <canonical bytes>`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import count
from typing import Any, ClassVar, Generic, NamedTuple, TypeAlias, TypeVar

import apsw

from windlass.errors import (
    FormatUnsupported,
    InvalidInput,
    JournalCorrupt,
    LimitExceeded,
    ReplayError,
    WindlassError,
)
from windlass.guards.secret import REGISTERED, check_no_secret
from windlass.guards.text import LARGE
from windlass.journal import bodies, encode_page, lengthened, link_page, shortened
from windlass.journal.bodies import MIN_BODY_BYTES, Body
from windlass.journal.redaction import redact
from windlass.kernel import Value, canonical
from windlass.ports.unit import NewTurn, TurnRequest, Unit
from windlass.stores.rules import unknown_blob
from windlass.stores.sqlite.connection import corrupt, first, select

T = TypeVar("T")


SplitPage: TypeAlias = tuple[bytes, tuple[Body, ...]]
"""A page as it is stored, and the long texts that it refers to."""
_LAST = "SELECT max(no) FROM log NOT INDEXED"
INSERT_PAGE = "INSERT INTO log (session, strand, seq, link, page) VALUES (?, ?, ?, ?, ?)"


def read_page(db: apsw.Connection, data: bytes, type: type[T], *, place: str) -> T:  # noqa: A002 - as in canonical
    """Return a page whose link was checked.

    Raises:
        FormatUnsupported: written by a release with another format.
        JournalCorrupt: a body is missing or not what was written, or the page cannot be read.
    """
    try:
        return canonical.read(bodies.join(data, lambda digest: _body(db, digest)), type)
    except (InvalidInput, LimitExceeded, ReplayError) as error:
        raise _at(place, error) from None


def _at(place: str, error: WindlassError) -> ReplayError:
    """Return why a page cannot be read, with its place."""
    if isinstance(error, FormatUnsupported):
        return FormatUnsupported(
            f"{place}: {error}", field=place, found=error.found, wanted=error.wanted
        )
    return corrupt(place, str(error))


@dataclass(slots=True)
class Strand(Generic[T]):
    """Reads the pages of a strand in order, each checked against its link.

    Sessions have thousands of pages and all are read when one is opened, so the way of a good page is short.
    """

    db: apsw.Connection
    place: str
    kind: type[T]
    link: bytes
    turn: tuple[str, str] | None = None

    def read(self, stored: Iterable[Any], *, start: int) -> list[T]:
        """Return the pages of (seq, link, data) rows; the first is to have the number `start`.

        Raises:
            JournalCorrupt: a page is missing, or not the one that was written there.
            FormatUnsupported: a page was written by a release with another format.
        """
        pages: list[T] = []
        link, wanted = self.link, start
        for seq, stored_link, data in stored:
            link = link_page(link, data)
            if seq != wanted or link != stored_link:
                raise self._corrupt(seq, wanted)
            pages.append(self.read_one(data, seq))
            wanted += 1
        self.link = link
        return pages

    def read_back(self, stored: Iterable[Any], *, start: int) -> Iterator[T]:
        """Return the pages of (seq, link, data) rows from `start` down, whose link is the strand's.

        Each is checked against the link of the one before it. Below the first page of all, `stored` has the link
        that it builds on, as number 0.

        Raises:
            JournalCorrupt, FormatUnsupported: as `read`.
        """
        link, page = self.link, None
        for wanted, (seq, link_before, data) in zip(count(start, -1), stored):
            if seq != wanted:
                raise self._corrupt(seq, wanted)
            if (link_before if page is None else link_page(link_before, page)) != link:
                at = seq if page is None else seq + 1
                raise self._corrupt(at, at)
            if page is not None:
                yield self.read_one(page, seq + 1)
            link, page = link_before, data

    def read_one(self, data: bytes, seq: int) -> T:
        """Return the page of these bytes, whatever its link."""
        if self.turn is not None:
            data = lengthened(data, *self.turn)
        if bodies.MARK in data:
            return read_page(self.db, data, self.kind, place=f"{self.place}, page {seq}")
        try:
            return canonical.read(data, self.kind)
        except (InvalidInput, LimitExceeded, FormatUnsupported) as error:
            raise _at(f"{self.place}, page {seq}", error) from None

    def _corrupt(self, seq: int, wanted: int) -> JournalCorrupt:
        if seq != wanted:
            return corrupt(self.place, f"page {wanted} is missing")
        return corrupt(
            f"{self.place}, page {seq}", "the page is not the one that was written there"
        )


def insert_page(
    db: apsw.Connection,
    row: tuple[int, int, int, bytes, bytes],
    long_texts: tuple[Body, ...],
    now_ms: int,
) -> int:
    """Put a page (session, strand, seq, link, data) into the log and return its number there."""
    db.execute(INSERT_PAGE, row)
    number = db.last_insert_rowid()
    for body in long_texts:
        _use(db, number, _keep_body(db, body, now_ms))
    return number


def insert_untold(
    db: apsw.Connection,
    row: tuple[int, int, int, bytes, bytes],
    long_texts: tuple[Body, ...],
    now_ms: int,
) -> int:
    """Put a page into the log that no turn of its session wrote, under a number below all marks: no watcher is told of it."""
    lowest = first(db, "SELECT min(no) FROM log NOT INDEXED")[0]
    if lowest is None:
        _keep_number(db, 1)  # else the first page that is written here would be numbered from below
    number = min(lowest or 0, 0) - 1
    db.execute("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)", (number, *row))
    for body in long_texts:
        _use(db, number, _keep_body(db, body, now_ms))
    return number


def use_blobs(db: apsw.Connection, number: int, digests: Iterable[str]) -> None:
    """Make a page hold on to blobs.

    Raises:
        InvalidInput: one was never put.
    """
    for digest in digests:
        found = first(db, "SELECT no FROM bodies WHERE digest = ? AND is_blob = 1", (_raw(digest),))
        if found is None:
            raise unknown_blob()
        _use(db, number, found[0])


class Deleted(NamedTuple):
    """What went: pages, bodies, and the digests of blobs, whose files are still to be removed."""

    pages: int
    bodies: int
    blobs: tuple[str, ...]


def delete_pages(
    db: apsw.Connection, where: str, values: tuple[object, ...], *, with_blobs: bool
) -> Deleted:
    """Delete pages and what nothing else uses."""
    last = first(db, _LAST)[0]
    numbers = [number for (number,) in select(db, f"SELECT no FROM log WHERE {where}", values)]  # noqa: S608 - a constant of the callers
    used: set[int] = set()
    for number in numbers:
        used.update(
            body for (body,) in select(db, "SELECT body FROM uses WHERE log = ?", (number,))
        )
        db.execute("DELETE FROM uses WHERE log = ?", (number,))
        db.execute("DELETE FROM log WHERE no = ?", (number,))
    gone = 0
    blobs: list[str] = []
    unused = (
        "SELECT digest, is_blob FROM bodies WHERE no = ?1 AND is_blob <= ?2"
        " AND NOT EXISTS (SELECT 1 FROM uses WHERE body = ?1)"
    )
    for body in used:
        for digest, is_blob in select(db, unused, (body, int(with_blobs))):
            db.execute("DELETE FROM bodies WHERE no = ?", (body,))
            gone += 1
            if is_blob:
                blobs.append(digest.hex())
    if last in numbers:
        _keep_number(db, last)
    return Deleted(len(numbers), gone, tuple(blobs))


def _keep_number(db: apsw.Connection, number: int) -> None:
    """Leave an empty page of no session in the place of the last one, so that its number is not given out again.

    Marks count pages by their numbers. An AUTOINCREMENT would write one more page of the file with every commit.
    """
    db.execute("DELETE FROM log WHERE session = 0")
    db.execute("INSERT INTO log VALUES (?, 0, 0, 0, x'', x'')", (number,))


def _keep_body(db: apsw.Connection, body: Body, now_ms: int) -> int:
    raw = _raw(body.digest)
    found = first(db, "SELECT no FROM bodies WHERE digest = ? AND is_blob = 0", (raw,))
    if found is not None:
        return int(found[0])
    db.execute(
        "INSERT INTO bodies (digest, is_blob, kept_ms, size, data) VALUES (?, 0, ?, ?, ?)",
        (raw, now_ms, len(body.data), body.data),
    )
    return db.last_insert_rowid()


def _use(db: apsw.Connection, page: int, body: int) -> None:
    db.execute("INSERT OR IGNORE INTO uses (log, body) VALUES (?, ?)", (page, body))


def _body(db: apsw.Connection, digest: str) -> bytes:
    found = first(db, "SELECT data FROM bodies WHERE digest = ? AND is_blob = 0", (_raw(digest),))
    if found is None or found[0] is None:
        raise JournalCorrupt("a text that it refers to is missing", field="body")
    return bytes(found[0])


def _raw(digest: str) -> bytes:
    try:
        return bytes.fromhex(digest)
    except (TypeError, ValueError):
        raise InvalidInput("digest: wanted 64 hex digits", field="digest") from None


class RequestPage(Value, kw_only=True):
    """What was asked of a turn, as it is stored."""

    FORMAT: ClassVar[int] = 1

    format: int
    request: TurnRequest


class Encoder:
    """Makes bytes of values, without any registered secret."""

    __slots__ = ()

    def page(self, value: object) -> SplitPage:
        """Return a page as it is stored, with its long texts apart."""
        return bodies.split(self._encode(value))

    def journal_page(self, unit: Unit) -> SplitPage | bytes:
        """Return the page of a unit's entries as it is stored; of a large one the bytes, for `split_page`."""
        data = encode_page(unit.entries, unit.generation)
        if len(data) >= MIN_BODY_BYTES or REGISTERED.secrets:
            return data if len(data) > LARGE else self.split_page(data, unit)
        return shortened(data, unit.session_id, unit.turn_id), ()

    def split_page(self, data: bytes, unit: Unit) -> SplitPage:
        """Return the bytes of a unit's page as they are stored."""
        if REGISTERED.secrets:
            data = redact(data, REGISTERED)
        data, long_texts = bodies.split(data)
        return shortened(data, unit.session_id, unit.turn_id), long_texts

    def request_page(self, turn: NewTurn) -> SplitPage:
        """Return what was asked of a turn as it is stored."""
        return self.page(RequestPage(format=RequestPage.FORMAT, request=turn.request))

    def pack(self, value: object) -> bytes:
        """Return a small payload as it is stored."""
        return pack(self._encode(value))

    def words(self, text: str) -> str:
        """Return words that are kept in a column of their own."""
        return REGISTERED.clean(text)

    def check_names(self, *names: str) -> None:
        """Refuse a name that holds a secret: redacted it would be another name, and errors show names."""
        if REGISTERED.secrets:
            for name in names:
                check_no_secret(str(name).encode(), field="name", wanted="an id")

    def _encode(self, value: object) -> bytes:
        data = canonical.encode(value)
        return redact(data, REGISTERED) if REGISTERED.secrets else data


_MAGIC = b"WL"
_FORMAT = b"1"
_HEAD = len(_MAGIC) + len(_FORMAT)
_BODY = _HEAD + 32


def pack(data: bytes) -> bytes:
    """Return canonical bytes as they are stored."""
    return _MAGIC + _FORMAT + sha256(data).digest() + data


def unpack(stored: bytes, type: type[T], *, place: str) -> T:  # noqa: A002 - reads as in canonical
    """Return the value that was packed.

    Raises:
        FormatUnsupported: packed by a release with another format.
        JournalCorrupt: not what was written.
    """
    if not isinstance(stored, bytes) or stored[: len(_MAGIC)] != _MAGIC or len(stored) < _BODY:
        raise corrupt(place, "found something that windlass did not write")
    found = stored[len(_MAGIC) : _HEAD]
    if found != _FORMAT:
        raise FormatUnsupported(
            f"{place}: found a format that this release does not know",
            field=place,
            found=found.decode(errors="replace"),
            wanted=_FORMAT.decode(),
        )
    data = stored[_BODY:]
    if sha256(data).digest() != stored[_HEAD:_BODY]:
        raise corrupt(place, "its bytes are not those of its digest")
    try:
        return canonical.read(data, type)
    except (InvalidInput, LimitExceeded) as error:
        raise corrupt(place, str(error)) from None
