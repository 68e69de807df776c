"""An archive: a session as text, written from one store and read into another.

One JSON value per line: the session, then a line per turn with all that it added, then a line per attachment. Each line
has a digest of itself and of the digest before it, so a line that is missing, doubled, moved or changed is noticed. The
digest shows damage; it does not say who made the archive.

Law 1. An archive is read whole before anything is written, and refused whole.
Law 2. What was decided elsewhere does not hold here: remembered approvals are left out. What was used elsewhere was paid
    for there: the pages say it, and the session starts at nothing.
Law 3. Journals stay where they are: they are for going on with a turn, and only turns that have ended are exported.
"""

from __future__ import annotations

import asyncio
import binascii
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable
from contextlib import suppress
from hashlib import sha256
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from windlass.errors import (
    FormatUnsupported,
    IdempotencyConflict,
    InvalidInput,
    UnknownSession,
    WindlassError,
)
from windlass.guards import check_id
from windlass.guards.secret import REGISTERED
from windlass.journal import DecisionRemembered, FrameOpened, HistoryPage
from windlass.journal.redaction import cleaned
from windlass.kernel import Chain, ConversationRecord, Message, canonical
from windlass.kernel.history import check_history
from windlass.ports import ImportedSession, ImportedTurn, Store
from windlass.ports.views import NO_PAGES
from windlass.runtime.turn_record import attached_to, messages_in

FORMAT: Final = 1
T = TypeVar("T")
Record = dict[str, Any]
# Archives are read on threads, where decoders cannot be made any more.
canonical.prepare(HistoryPage)


class _SessionLine(msgspec.Struct, forbid_unknown_fields=True):
    kind: str
    format: int
    session: str
    agent: str
    created_ms: int
    turns: int
    blobs: int
    active: str | None = None
    parent: str | None = None


class _TurnLine(msgspec.Struct, forbid_unknown_fields=True):
    kind: str
    turn: str
    page: dict[str, Any]
    request: str | None
    committed_ms: int
    outcome: dict[str, Any]
    messages: list[Any]
    usage: list[Any]


class _BlobLine(msgspec.Struct, forbid_unknown_fields=True):
    kind: str
    blob: str
    size: int
    data: str


class Archive(NamedTuple):
    """What an archive holds: the session, and the bytes that its messages refer to, by digest."""

    session: ImportedSession
    blobs: dict[str, bytes]


# ---------------------------------------------------------------------- writing


async def export_session(
    store: Store, session_id: str, clean: Callable[[str], str] = REGISTERED.clean
) -> list[str]:
    """Return a session as the lines of an archive; `clean` takes out of each what must not be read."""
    view = await store.load_session(session_id)
    wanted = tuple(dict.fromkeys(ref for page in view.pages for ref in _blobs_of(page)))
    head = {
        "kind": "session",
        "format": FORMAT,
        "session": view.session_id,
        "agent": view.agent,
        "created_ms": view.created_ms,
        "turns": len(view.pages),
        "active": view.active,
        "parent": view.parent,
        "blobs": len(wanted),
    }
    records: list[Record] = [head]
    for page in view.pages:
        turn = await store.load_turn(session_id, page.turn_id, since=NO_PAGES)
        # A page that it shares with the session it was forked from is no turn of its own.
        is_own = turn is not None and turn.page == page
        records.append(_turn_record(page, turn.request_digest if turn and is_own else None))
    for ref in wanted:
        data = await store.get_blob(ref)
        told = {"kind": "blob", "blob": ref, "size": len(data), "data": b64encode(data).decode()}
        records.append(told)
    lines, digest = [], ""
    for record in records:
        told = msgspec.json.decode(clean(msgspec.json.encode(record).decode()))
        digest = _link(digest, told)
        lines.append(msgspec.json.encode({**told, "digest": digest}).decode())
    return lines


def _turn_record(page: HistoryPage, request: str | None) -> Record:
    stored = msgspec.json.decode(canonical.encode(page))
    said = [
        {
            "id": each.id,
            "role": each.role,
            "parts": msgspec.json.decode(canonical.encode(each.parts)),
        }
        for each in messages_in(page.nodes)
    ]
    return {
        "kind": "turn",
        "turn": page.turn_id,
        "committed_ms": page.committed_ms,
        "outcome": stored["outcome"],
        "messages": said,
        "usage": stored.get("usage", []),
        "request": request,
        "page": stored,
    }


def _blobs_of(page: HistoryPage) -> tuple[str, ...]:
    return tuple(dict.fromkeys(attached_to(messages_in(page.nodes))))


def _link(previous: str, record: Record) -> str:
    return sha256(previous.encode() + canonical.encode(record)).hexdigest()


# ---------------------------------------------------------------------- reading


async def import_session(
    store: Store, lines: str | Iterable[str], *, session_id: str | None, now_ms: int
) -> ImportedSession:
    """Read an archive into a store, as a session of this id or of the one that it had; return what was imported.

    Raises:
        InvalidInput: a line is missing, damaged or not of an archive; it names the line and the field.
        FormatUnsupported: another release wrote it in a format that this one does not read.
        IdempotencyConflict, SessionDeleted: the id is taken; the same archive may come again.
    """
    found = lines.split("\n") if isinstance(lines, str) else list(lines)
    archive = await asyncio.to_thread(read_archive, found)
    session = archive.session
    if session_id is not None:
        check_id(session_id, field="session_id")
        session = msgspec.structs.replace(session, session_id=session_id)
    with suppress(UnknownSession):
        known = await store.load_session(session.session_id, history=False)
        if known.head != len(session.turns):
            raise _is_taken(session)
    for data in archive.blobs.values():
        await store.put_blob(data, now_ms=now_ms)
    try:
        await store.import_session(session, now_ms=now_ms)
    except IdempotencyConflict:
        raise _is_taken(session) from None
    return session


def _is_taken(session: ImportedSession) -> IdempotencyConflict:
    said = f"session {session.session_id}: exists already with another history; import it under another id"
    return IdempotencyConflict(said, field="session_id")


def read_archive(lines: Iterable[str]) -> Archive:
    """Return what an archive holds.

    Raises:
        InvalidInput, FormatUnsupported: as `import_session`.
    """
    records = _records(lines)
    if not records:
        raise InvalidInput("line 1: found nothing, wanted the archive of a session", field="line 1")
    head, *rest = records
    about = _as(head, _SessionLine, "session")
    n_wanted = about.turns + about.blobs
    if len(rest) != n_wanted:
        said = f"found {len(rest)} of {n_wanted} lines behind it: the archive is not whole"
        raise _refused(head.number, "turns", said)
    blobs = dict(map(_blob, rest[about.turns :]))
    turns = [_turn(line, blobs) for line in rest[: about.turns]]
    _check_messages(turns)
    try:
        session = ImportedSession(
            session_id=about.session,
            agent=about.agent,
            created_ms=about.created_ms,
            turns=tuple(turns),
        )
    except InvalidInput as error:
        raise _at(head.number, error) from None
    return Archive(session, blobs)


class _Line(NamedTuple):
    number: int
    value: Record


def _records(lines: Iterable[str]) -> list[_Line]:
    """Return the values of the lines, each with the digest that it should have."""
    found: list[_Line] = []
    digest = ""
    for number, line in enumerate(lines, start=1):
        if not isinstance(line, str):
            raise _refused(number, "type", f"found {type(line).__name__}, wanted text")
        if not line.strip():
            continue
        try:
            value = canonical.parse(line)
        except ValueError as error:
            raise _refused(number, "JSON", str(error)) from None
        if not isinstance(value, dict):
            raise _refused(number, "JSON", f"found {type(value).__name__}, wanted an object")
        if not found:
            _check_format(number, value)
        told = value.pop("digest", None)
        digest = _link(digest, value)
        if told != digest:
            said = "the line is not the one that was exported there; export the session again"
            raise _refused(number, "digest", said)
        found.append(_Line(number, value))
    return found


def _check_format(number: int, head: Record) -> None:
    if head.get("kind") != "session":
        raise _refused(number, "kind", "wanted session: the file is not the archive of a session")
    if head.get("format") != FORMAT:
        found = head.get("format")
        hint = "an older release wrote it; export again" if found is None else "update windlass"
        raise FormatUnsupported(
            f"line {number}: format: found {found}, this release reads {FORMAT}; {hint}",
            field="format",
            found=found,
            wanted=FORMAT,
        )


def _turn(line: _Line, blobs: dict[str, bytes]) -> ImportedTurn:
    told = _as(line, _TurnLine, "turn")
    try:
        page = cleaned(canonical.decode(canonical.encode(told.page), HistoryPage))
        check_id(page.turn_id, field="page.turn_id")
    except WindlassError as error:
        raise _at(line.number, error) from None
    if page.turn_id != told.turn:
        raise _refused(line.number, "turn", "the page is of another turn")
    nodes = tuple(node for node in page.nodes if type(node) is not DecisionRemembered)
    page = msgspec.structs.replace(page, nodes=nodes, prefix=None)
    attached = _blobs_of(page)
    for ref in attached:
        if ref not in blobs:
            raise _refused(line.number, "page", f"the attachment {ref} is missing")
    return ImportedTurn(page=page, request_digest=told.request, blobs=attached)


def _blob(line: _Line) -> tuple[str, bytes]:
    told = _as(line, _BlobLine, "blob")
    try:
        data = b64decode(told.data, validate=True)
    except (binascii.Error, ValueError):
        raise _refused(line.number, "data", "wanted base64") from None
    if len(data) != told.size or sha256(data).hexdigest() != told.blob:
        raise _refused(line.number, "data", "its bytes are not those of its digest")
    return told.blob, data


def _check_messages(turns: list[ImportedTurn]) -> None:
    """Refuse a history that no turn could go on from."""
    said: list[Message] = []
    for turn in turns:
        for node in turn.page.nodes:
            if type(node) is ConversationRecord:
                said.append(node.message)
            elif type(node) is FrameOpened:
                said.clear()
    try:
        check_history(Chain(said))
    except InvalidInput as error:
        raise InvalidInput(f"the last frame of the history: {error}", field=error.field) from None


def _as(line: _Line, kind: type[T], name: str) -> T:
    if line.value.get("kind") != name:
        raise _refused(line.number, "kind", f"wanted {name}")
    try:
        return msgspec.convert(line.value, kind)
    except msgspec.ValidationError as error:
        raise _refused(line.number, name, str(error)) from None


def _refused(number: int, field: str, said: str) -> InvalidInput:
    return InvalidInput(f"line {number}: {field}: {said}", field=f"line {number}: {field}")


def _at(number: int, error: WindlassError) -> WindlassError:
    """Return why a line cannot be read, with its number."""
    kind = FormatUnsupported if isinstance(error, FormatUnsupported) else InvalidInput
    field = f"line {number}: {error.field}"
    return kind(f"line {number}: {error}", field=field, found=error.found, wanted=error.wanted)
