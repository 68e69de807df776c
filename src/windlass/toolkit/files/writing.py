"""Writing in a folder so that a crash at any moment, and the same call again, leave each file old or new.

Law 1. A file is replaced by a rename: it is what it was or what it is to be, never a part of it.
Law 2. All of a call is checked, and all of its new content is on the disk, before the first file changes.
Law 3. A record under the call's key is durable before the first file changes. When the same call runs again, a file
    that has its new content is done, one that has its old content is written, and with any other the call ends.
Law 4. What changed since it was read is not written over.
Law 5. Only an attempt that found no record says that no file was changed. One that found a record says which files have
    their new content; if a repeat cannot look for a record, the outcome is unknown.
Law 6. Once the turn of a call is cancelled, the call changes no further file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from typing import Final, NamedTuple

from windlass.errors import PathDenied, ToolError, ToolUncertain
from windlass.toolkit.files.diff import stat_of
from windlass.toolkit.files.folder import Content, Folder, Names, as_shown, signature_of
from windlass.toolkit.files.permissions import HandedOn, may, may_replace
from windlass.toolkit.files.state import STATE, CallRecord, Changed, State

MAX_LINES: Final = 200_000
"""The most lines that a file may have, before and after: each of them is compared."""
ABSENT: Final = "absent"
"""The digest of a file that is not there."""
_MAX_REASONS: Final = 5


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
        self,
        edits: Sequence[Edit],
        key: str,
        is_cancelled: Callable[[], bool] = lambda: False,
        attempt: int = 1,
    ) -> tuple[Changed, ...]:
        """Do it, once for a key; return what was done. When this returns, it is durable.

        Args:
            edits: What is to be done.
            key: The idempotency key of the call; without one, nothing is recorded.
            is_cancelled: Whether the turn was cancelled. Looked at before each file changes.
            attempt: Which attempt of the call this is, from 1.

        Raises:
            PathDenied: one of the files may not be opened.
            ToolError: it was not done, or not all of it: the message says so.
            ToolUncertain: what an earlier attempt did cannot be told.
        """
        if self._is_first():
            self.planned(edits)  # a call that is refused leaves nothing behind
        with State.opened(self._folder, key, is_cancelled, attempt) as (state, found):
            record = found or self._begin(edits, key, state, is_cancelled)
            if found is not None:
                self._go_on(edits, found, key, state, is_cancelled)
            if key:
                state.sweep(key)
        return record.files

    def _begin(
        self, edits: Sequence[Edit], key: str, state: State, is_cancelled: Callable[[], bool]
    ) -> CallRecord:
        planned, done = self.planned(edits), list[str]()
        record = CallRecord(format=1, files=tuple(each.changed for each in planned))
        with _told(edits, done, is_first=True), self._halves(planned, state) as halves:
            if key:
                state.keep(key, record)
            self._place_all(zip(planned, halves, strict=True), done, state, is_cancelled)
        return record

    def _go_on(
        self,
        edits: Sequence[Edit],
        record: CallRecord,
        key: str,
        state: State,
        is_cancelled: Callable[[], bool],
    ) -> None:
        """Do what a call that was cut off has still to do."""
        done = self._done_before(edits, record)
        with _told(edits, done, is_first=False):
            state.keep_found(key)
            planned = self._planned_again([e for e in edits if e.path not in done], record)
            with self._halves(planned, state) as halves:
                self._place_all(zip(planned, halves, strict=True), done, state, is_cancelled)
            for edit in edits:
                self._sync(edit)

    # --------------------------------------------------------------------------------- checking

    def _is_first(self) -> bool:
        # If that cannot be told, the folder cannot be opened either, and what was done before is not known.
        with suppress(OSError, ToolError), self._folder.opened(()) as root:
            try:
                os.stat(STATE, dir_fd=root, follow_symlinks=False)
            except FileNotFoundError:
                return True
        return False

    def _plan(self, edit: Edit) -> Planned:
        before = self._folder.read_if_there(edit.names, self._limit)
        if before is not None and not self._is_writable(edit.names, before):
            told = "found a file that is read-only here, wanted one that may be changed"
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

    def _is_writable(self, names: Names, found: Content) -> bool:
        # A rename asks for no right on the file itself. Its mark counts for root as well, who may write any file.
        with self._folder.opened(names[:-1]) as folder:
            return bool(found.permissions.mode & 0o222) and may(os.W_OK, names[-1], folder)

    def _done_before(self, edits: Sequence[Edit], record: CallRecord) -> list[str]:
        """Return the files that have their new content already.

        Raises:
            ToolError: some have neither the old nor the new content.
            ToolUncertain: that of some cannot be told.
        """
        recorded = {each.path: each for each in record.files}
        if recorded.keys() != {edit.path for edit in edits}:
            raise ToolUncertain("This call began with other files. Read them and go on from there.")
        done, undone, changed, unread = list[str](), list[str](), list[str](), list[str]()
        reasons = list[str]()
        for edit in edits:
            try:
                found = self._folder.read_if_there(edit.names, self._limit)
            except (PathDenied, ToolError) as error:
                unread.append(edit.path)
                reasons.append(f"{error}.")
                continue
            now, known = digest_of(found.data if found is not None else None), recorded[edit.path]
            kind = {known.after: done, known.before: undone}.get(now, changed)
            kind.append(edit.path)
        if changed:
            told = f"{_listed(changed)}: changed by someone else since this call began; left alone."
            reasons.append(f"{told} Read {_listed(changed)} again.")
        if reasons:
            told = " ".join([*reasons[-_MAX_REASONS:], *_progress(done, undone)])
            if unread:
                raise ToolUncertain(f"{told} Not known: {_listed(unread)}.")
            raise ToolError(told)
        return done

    def _planned_again(self, edits: Sequence[Edit], record: CallRecord) -> list[Planned]:
        recorded = {each.path: each for each in record.files}
        planned = [self._plan(edit) for edit in edits]
        for each in planned:
            known = recorded[each.edit.path]
            if each.changed.before != known.before:
                raise _changed_now(each.edit.path)
            if each.changed.after != known.after:
                told = "this call would change it otherwise now than when it began; left alone"
                raise ToolError(f"{as_shown(each.edit.path)}: {told}")
        return planned

    @contextmanager
    def _halves(self, planned: Sequence[Planned], state: State) -> Iterator[list[str | None]]:
        """Write all new content, which is then moved into its places."""
        # All of the places are looked at before the first byte is written.
        handed_on = [self._handed_on(each, state) for each in planned]
        with ExitStack() as written:
            yield [
                None
                if each.after is None
                else written.enter_context(
                    state.half(each.after, each.before.permissions if each.before else rights)
                )
                for each, rights in zip(planned, handed_on, strict=True)
            ]

    def _handed_on(self, planned: Planned, state: State) -> HandedOn:
        """Return what the folder of a file hands on to what is new in it.

        Raises:
            ToolError: nothing could be put there.
        """
        old = planned.before.permissions if planned.before is not None else None
        with self._nearest(planned.edit.names[:-1]) as folder:
            found, told = os.fstat(folder), None
            if found.st_dev != os.fstat(state.fd).st_dev:
                told = "found a folder on another disk than the root, wanted one on the same"
            elif not state.reaches(folder):
                told = "found a folder that is mounted by itself, wanted one of the root's mount"
            elif not may(os.W_OK | os.X_OK, ".", folder):
                told = "found a folder that may not be written to"
            elif not may_replace(found, old):
                told = "found a file of another user, which only they may replace in this folder"
            handed_on = HandedOn.of(folder, found)
        if told is not None:
            raise ToolError(f"{as_shown(planned.edit.path)}: {told}")
        return handed_on

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
        planned: Iterable[tuple[Planned, str | None]],
        done: list[str],
        state: State,
        is_cancelled: Callable[[], bool],
    ) -> None:
        """Put all in its place; `done` gets each file as soon as it has its new content."""
        for each, half in planned:
            if is_cancelled():
                raise ToolError("the turn was cancelled")
            try:
                self._place(each, half, done, state)
            except OSError as error:
                told = "cannot be put in place"
                if each.edit.path in done:
                    told = "changed, but a power cut may undo it"
                shown = as_shown(each.edit.path)
                raise ToolError(f"{shown}: {told} ({error.strerror})") from None

    def _place(self, planned: Planned, half: str | None, done: list[str], state: State) -> None:
        *above, name = planned.edit.names
        if planned.changed.before == planned.changed.after:
            return
        with self._folder.opened(above, make=half is not None) as folder:
            # The last moment to see that someone was faster.
            _check_same(folder, planned)
            if half is None:
                os.unlink(name, dir_fd=folder)
            else:
                os.rename(half, name, src_dir_fd=state.half_fd, dst_dir_fd=folder)
            done.append(planned.edit.path)
            os.fsync(folder)

    def _sync(self, edit: Edit) -> None:
        try:
            self._folder.sync(edit.names)
        except OSError as error:
            told = f"changed, but a power cut may undo it ({error.strerror})"
            raise ToolError(f"{as_shown(edit.path)}: {told}") from None


def _check_same(folder: int, planned: Planned) -> None:
    known = planned.before.signature if planned.before is not None else None
    try:
        found = os.stat(planned.edit.names[-1], dir_fd=folder, follow_symlinks=False)
        is_same = signature_of(found) == known
    except FileNotFoundError:
        is_same = known is None
    if not is_same:
        raise _changed_now(planned.edit.path)


def _changed_now(path: str) -> ToolError:
    return ToolError(f"{as_shown(path)}: changed by someone else just now; read it again")


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


@contextmanager
def _told(edits: Sequence[Edit], done: Sequence[str], *, is_first: bool) -> Iterator[None]:
    """Add to what goes wrong which files have their new content, and which have not."""
    try:
        yield
    except (PathDenied, ToolError) as error:
        # Only an attempt that found no record knows that. Folders for a new file may have been made.
        if is_first and not done:
            if isinstance(error, PathDenied):
                raise
            raise ToolError(f"{error}. No file was changed.") from None
        undone = [edit.path for edit in edits if edit.path not in done]
        raise ToolError(" ".join([f"{error}.", *_progress(done, undone)])) from None


def _progress(done: Sequence[str], undone: Sequence[str]) -> list[str]:
    said = (("Changed before that", done), ("Not changed", undone))
    return [f"{what}: {_listed(paths)}." for what, paths in said if paths]


def _listed(paths: Sequence[str]) -> str:
    shown = ", ".join(map(as_shown, paths[:10]))
    return shown if len(paths) <= 10 else f"{shown} and {len(paths) - 10} more"


def _text(content: bytes | None) -> str:
    return (content or b"").decode(errors="replace")
