"""Writing in a folder so that a crash at any moment, and the same call again, leave each file old or new.

Law 1. A file is replaced by a rename: it is what it was or what it is to be, never a part of it.
Law 2. All of a call is checked, and all of its new content is on the disk, before the first file changes.
Law 3. A record under the call's key is durable before the first file changes. When the same call runs again, a file
    that has its new content is done, one that has its old content is written, and with any other the call ends.
Law 4. What changed since it was read is not written over.
Law 5. Once the turn of a call is cancelled, the call changes no further file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from typing import Final, NamedTuple

from windlass.errors import PathDenied, ToolError, ToolUncertain, WindlassError
from windlass.toolkit.files.diff import stat_of
from windlass.toolkit.files.folder import Content, Folder, Names, as_shown, signature_of
from windlass.toolkit.files.state import STATE, CallRecord, Changed, State

MAX_LINES: Final = 200_000
"""The most lines that a file may have, before and after: each of them is compared."""
ABSENT: Final = "absent"
"""The digest of a file that is not there."""


class Edit(NamedTuple):
    """What a call does to one file: `make` gets what is there and returns what is to be there. None: it is missing."""

    names: Names
    make: Callable[[Content | None], bytes | None]

    @property
    def path(self) -> str:
        """Its path from the root."""
        return "/".join(self.names)


class Planned(NamedTuple):
    """An edit that was checked, with the file as it was read for it."""

    edit: Edit
    before: Content | None
    after: bytes | None
    changed: Changed


def digest_of(content: bytes | None) -> str:
    """Return what tells contents apart."""
    return ABSENT if content is None else sha256(content).hexdigest()


class Writer:
    """Writes files below a folder.

    Args:
        folder: Where they lie.
        limit: The most bytes that a file may have, before and after.
    """

    def __init__(self, folder: Folder, limit: int) -> None:
        self._folder = folder
        self._limit = limit

    def planned(self, edits: Sequence[Edit]) -> list[Planned]:
        """Return what these edits would do. Nothing is done.

        Raises:
            PathDenied: one of the files may not be opened.
            ToolError: one of them is not as the call wants it.
        """
        _check_apart(edits)
        return [self._plan(edit) for edit in edits]

    def write(
        self, edits: Sequence[Edit], key: str, is_cancelled: Callable[[], bool] = lambda: False
    ) -> tuple[Changed, ...]:
        """Do it, once for a key; return what was done. When this returns, it is durable.

        Args:
            edits: What is to be done.
            key: The idempotency key of the call; without one, nothing is recorded.
            is_cancelled: Whether the turn was cancelled. Looked at before each file changes.

        Raises:
            PathDenied: one of the files may not be opened.
            ToolError: it was not done, or not all of it: the message says so.
            ToolUncertain: what an earlier attempt did cannot be told.
        """
        if self._is_first():
            self.planned(edits)  # a call that is refused leaves nothing behind
        with State.opened(self._folder, key, is_cancelled) as state, ExitStack() as written:
            record = state.record(key) if key else None
            planned = self.planned(edits) if record is None else self._left_of(record, edits)
            self._check_places(planned, state)
            halves = [
                None
                if each.after is None
                else written.enter_context(state.half(each.after, each.before))
                for each in planned
            ]
            if record is None:
                record = CallRecord(format=1, files=tuple(each.changed for each in planned))
                if key:
                    state.keep(key, record)
            self._place_all(planned, halves, state, is_cancelled)
            if key:
                state.sweep(key)
        return record.files

    # --------------------------------------------------------------------------------- checking

    def _is_first(self) -> bool:
        with self._folder.opened(()) as root:
            try:
                os.stat(STATE, dir_fd=root, follow_symlinks=False)
            except FileNotFoundError:
                return True
        return False

    def _plan(self, edit: Edit) -> Planned:
        before = self._folder.read_if_there(edit.names, self._limit)
        if before is not None and not before.mode & 0o222:
            told = "found a file that is marked as read-only, wanted one that may be changed"
            raise ToolError(f"{as_shown(edit.path)}: {told}")
        old = before.data if before is not None else None
        _check_lines(old, edit.path)
        after = edit.make(before)
        if after is not None and len(after) > self._limit:
            told = f"found {len(after):,} bytes to write, the limit is {self._limit:,}"
            raise ToolError(f"{as_shown(edit.path)}: {told}")
        _check_lines(after, edit.path)
        added, removed = stat_of(_text(old), _text(after))
        changed = Changed(
            path=edit.path,
            before=digest_of(old),
            after=digest_of(after),
            added=added,
            removed=removed,
        )
        return Planned(edit, before, after, changed)

    def _left_of(self, record: CallRecord, edits: Sequence[Edit]) -> list[Planned]:
        """Return what a call that was cut off has still to do."""
        recorded = {each.path: each for each in record.files}
        if recorded.keys() != {edit.path for edit in edits}:
            raise ToolUncertain("This call began with other files. Read them and go on from there.")
        left, done, others = list[Planned](), list[str](), list[str]()
        for edit in edits:
            known = recorded[edit.path]
            found = self._folder.read_if_there(edit.names, self._limit)
            now = digest_of(found.data if found is not None else None)
            if now == known.after:
                done.append(edit.path)
            elif now != known.before:
                others.append(edit.path)
            else:
                left.append(self._plan(edit))
                is_same = left[-1].changed.after == known.after
                others += [] if is_same else [edit.path]
        if others:
            told = f"{_listed(others)}: changed by someone else since this call began; left alone"
            undone = [each.edit.path for each in left if each.edit.path not in others]
            raise ToolError(f"{told}. {_progress(done, undone)} Read {_listed(others)} again.")
        return left

    def _check_places(self, planned: Sequence[Planned], state: State) -> None:
        """Refuse what could not be put in its place, before the first file is."""
        disk = os.fstat(state.fd).st_dev
        for each in planned:
            with self._nearest(each.edit.names[:-1]) as folder:
                told = None
                if os.fstat(folder).st_dev != disk:
                    told = "found a folder on another disk than the root, wanted one on the same"
                elif not os.access(".", os.W_OK | os.X_OK, dir_fd=folder):
                    told = "found a folder that may not be written to"
            if told is not None:
                raise ToolError(f"{as_shown(each.edit.path)}: {told}; nothing was changed")

    @contextmanager
    def _nearest(self, names: Names) -> Iterator[int]:
        """Open a folder, or the nearest one above it that is there."""
        with ExitStack() as opened:
            folder = opened.enter_context(self._folder.opened(()))
            for n in range(len(names), 0, -1):
                with suppress(ToolError):
                    folder = opened.enter_context(self._folder.opened(names[:n]))
                    break
            yield folder

    # ---------------------------------------------------------------------------------- placing

    def _place_all(
        self,
        planned: Sequence[Planned],
        halves: Sequence[str | None],
        state: State,
        is_cancelled: Callable[[], bool],
    ) -> None:
        done = list[str]()
        for each, half in zip(planned, halves, strict=True):
            try:
                if is_cancelled():
                    raise ToolError("the turn was cancelled")
                self._place(each, half, state)
            except (OSError, WindlassError) as error:
                told = str(error)
                if isinstance(error, OSError):
                    told = f"{as_shown(each.edit.path)}: cannot be put in place ({error.strerror})"
                if isinstance(error, PathDenied) and not done:
                    raise
                undone = [one.edit.path for one in planned[len(done) :]]
                raise ToolError(f"{told}. {_progress(done, undone)}") from None
            done.append(each.edit.path)

    def _place(self, planned: Planned, half: str | None, state: State) -> None:
        if planned.changed.before == planned.changed.after:
            return
        *above, name = planned.edit.names
        with self._folder.opened(above, make=half is not None) as folder:
            # The last moment to see that someone was faster.
            _check_same(folder, planned)
            if half is None:
                os.unlink(name, dir_fd=folder)
            else:
                os.rename(half, name, src_dir_fd=state.half_fd, dst_dir_fd=folder)
            os.fsync(folder)


def _check_same(folder: int, planned: Planned) -> None:
    known = planned.before.signature if planned.before is not None else None
    try:
        found = os.stat(planned.edit.names[-1], dir_fd=folder, follow_symlinks=False)
        is_same = signature_of(found) == known
    except FileNotFoundError:
        is_same = known is None
    if not is_same:
        shown = as_shown(planned.edit.path)
        raise ToolError(f"{shown}: changed by someone else just now; read it again")


def _check_lines(content: bytes | None, path: str) -> None:
    n_lines = (content or b"").count(b"\n")
    if n_lines > MAX_LINES:
        told = f"found {n_lines:,} lines, wanted at most {MAX_LINES:,} in a file that is changed"
        raise ToolError(f"{as_shown(path)}: {told}")


def _check_apart(edits: Sequence[Edit]) -> None:
    """Refuse a file that is named twice, and a name that is to be a file and a folder."""
    files = set[Names]()
    for edit in edits:
        if edit.names in files:
            shown = as_shown(edit.path)
            raise ToolError(f"{shown}: found twice in one call, wanted all its changes together")
        files.add(edit.names)
    for edit in edits:
        for n in range(1, len(edit.names)):
            if edit.names[:n] in files:
                shown = as_shown("/".join(edit.names[:n]))
                raise ToolError(f"{shown}: found as a file and as a folder, wanted one of the two")


def _progress(done: Sequence[str], undone: Sequence[str]) -> str:
    if not done:
        return "Nothing was changed."
    left = f" Not changed: {_listed(undone)}." if undone else ""
    return f"Changed before that: {_listed(done)}.{left}"


def _listed(paths: Sequence[str]) -> str:
    shown = ", ".join(map(as_shown, paths[:10]))
    return shown if len(paths) <= 10 else f"{shown} and {len(paths) - 10} more"


def _text(content: bytes | None) -> str:
    return (content or b"").decode(errors="replace")
