"""The tools with which a model reads, searches and changes the files of one folder.

Law 1. Nothing outside the folder is read, listed or written, whatever a path says, even if others swap names meanwhile.
    A folder that others move out while a call has it open is still the one that was in it, and is written where it is.
Law 2. A call that changes files is done once, however often a crash makes it run: it is `keyed`, and passes its key on.
Law 3. Before a person allows a change, they see it as a diff of the files as they are then. If the files are not as
    the call wants them any more when it runs, nothing is changed and the model is told.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec

from windlass.errors import ConfigError, PathDenied, ToolError
from windlass.ports.tool import ToolContext
from windlass.toolkit.files.diff import diff_of
from windlass.toolkit.files.edits import (
    MAX_PLACES,
    VERSION_CHARS,
    patched,
    replaced,
    version_of,
    written,
)
from windlass.toolkit.files.folder import PROTECTED, Content, Folder, as_shown
from windlass.toolkit.files.search import Query, found_lines
from windlass.toolkit.files.state import Changed
from windlass.toolkit.files.walk import found_names, listing
from windlass.toolkit.files.writing import ABSENT, Edit, Writer
from windlass.tools import FunctionTool, tool

AnyTool: TypeAlias = FunctionTool[Any, ..., Any]
Write: TypeAlias = Literal["ask", "allow", "never"]

MAX_READ_BYTES: Final = 8 * 1024 * 1024
_MAX_SHOWN_CHARS: Final = 60_000
_LINES: Final = 1_000
# What a result does not carry as it is, without tab, line feed and carriage return.
_CONTROL: Final = re.compile("[\x01-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)]
_Depth: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=32)]
_Places: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=MAX_PLACES)]


def files(
    root: str | os.PathLike[str],
    *,
    write: Write = "ask",
    hidden: bool = False,
    hard_links: bool = False,
    protected: Iterable[str] = PROTECTED,
    max_read_bytes: int = MAX_READ_BYTES,
) -> list[AnyTool]:
    """Return tools with which a model works with the files of a folder, and with nothing beyond it.

    `read_file`, `list_files`, `find_files` and `search_files` read; `write_file`, `edit_file` and `apply_patch` change.

    Args:
        root: The folder. It has to be there, and cannot be the whole file system.
        write: Whether files may be changed: after a person said yes (`ask`), at once (`allow`), or not at all (`never`).
        hidden: Whether names that start with a dot are shown and opened.
        hard_links: Whether files with more than one name are opened. Another name may lie outside of the folder.
        protected: Names that are never opened, in addition to `.git` and `.windlass`; patterns such as `*.pem` may
            stand among them.
        max_read_bytes: The most bytes that a file may have to be read, searched or changed.

    Raises:
        ConfigError: naming the argument.
    """
    if write not in ("ask", "allow", "never"):
        raise ConfigError.at("files.write", repr(write)[:60], "'ask', 'allow' or 'never'")
    for name, flag in (("hidden", hidden), ("hard_links", hard_links)):
        if not isinstance(flag, bool):
            raise ConfigError.at(f"files.{name}", type(flag).__name__, "True or False")
    if isinstance(max_read_bytes, bool) or not isinstance(max_read_bytes, int):
        raise ConfigError.at("files.max_read_bytes", type(max_read_bytes).__name__, "a number")
    if max_read_bytes < 1:
        raise ConfigError.at("files.max_read_bytes", max_read_bytes, "at least 1")
    folder = Folder(root, hidden=hidden, hard_links=hard_links, protected=protected)
    tools = _reading(folder, max_read_bytes)
    return tools if write == "never" else [*tools, *_writing(folder, max_read_bytes, write)]


# ------------------------------------------------------------------------------------ reading


def _reading(root: Folder, limit: int) -> list[AnyTool]:
    def read_file(path: str, start: _Count = 1, lines: _Count = _LINES) -> str:
        """Read a text file. The first line of the answer names its version, which write_file asks for.

        Args:
            path: The file, such as src/app.py.
            start: The first line to show.
            lines: How many lines to show at most.
        """
        return _shown(path, root.read(root.names_of(path), limit), start, lines)

    def list_files(folder: str = ".", depth: _Depth = 2) -> str:
        """List what is in a folder and in the folders below it.

        Args:
            folder: Where to begin.
            depth: How many levels to list.
        """
        return listing(root, folder, depth)

    def find_files(pattern: str, folder: str = ".") -> str:
        """Find files by their names.

        Args:
            pattern: Such as *.py in any folder, src/*.py in that one, or src/**/test_*.py below it.
            folder: Where to begin; the pattern is compared with paths from there.
        """
        return found_names(root, pattern, folder)

    def search_files(
        query: str,
        folder: str = ".",
        pattern: str = "*",
        regex: bool = False,  # noqa: FBT001, FBT002 - a model names its arguments
        ignore_case: bool = False,  # noqa: FBT001, FBT002 - as above
    ) -> str:
        """Find lines of text files; each is shown with its file and number.

        Args:
            query: Text that is in the line.
            folder: Where to begin.
            pattern: Which files to look at, such as *.py or src/**/*.md.
            regex: Whether the query is a regular expression, as Python writes them.
            ignore_case: Whether capital and small letters are the same.
        """
        return found_lines(root, Query(query, regex, ignore_case), folder, pattern, limit)

    return [tool(each, effect="pure") for each in (read_file, list_files, find_files, search_files)]


def _shown(path: str, content: Content, start: int, n_lines: int) -> str:
    """Return lines of a file as a model reads them: plain, so that they can be copied into an edit."""
    data, shown = content.data, as_shown(path)
    version = f"version {version_of(data)}"
    if b"\0" in data:
        return f"{shown}: {len(data):,} bytes, {version}. It is not text, so it is not shown."
    text = data.decode("utf-8-sig", errors="replace")
    notes, lines = _notes(data, text), text.replace("\r\n", "\n").split("\n")
    if not lines[-1]:
        lines.pop()
    elif data:
        notes.append("no line feed at its end")
    if not lines:
        return f"{shown}: empty, {version}"
    if start > len(lines):
        told = f"found {start:,}, wanted at most {len(lines):,}: {shown} has no more lines"
        raise ToolError(f"start: {told}")
    cut, last = _fitting(lines, start, n_lines)
    if len(lines[last - 1]) > _MAX_SHOWN_CHARS:
        notes.append(f"line {last:,} is cut, and its rest cannot be read")
    if last < len(lines):
        notes.append(f"go on with start={last + 1}")
    head = f"{shown}: lines {start:,} to {last:,} of {len(lines):,}, {version}"
    return "\n".join([f"{head} ({'; '.join(notes)})" if notes else head, *cut])


def _notes(data: bytes, text: str) -> list[str]:
    """Say where a file is not what is shown of it."""
    notes = list[str]()
    if text.encode("utf-8") not in (data, data[3:]):
        notes.append("not UTF-8: what cannot be read is shown as \ufffd, and it cannot be edited")
    if "\r\n" in text:
        notes.append("its lines end with CRLF; write them with plain line feeds")
    if _CONTROL.search(text):
        told = "control characters in it are shown as \\x0c and the like"
        notes.append(f"{told}; write_file writes that as plain text")
    return notes


def _fitting(lines: Sequence[str], start: int, n_lines: int) -> tuple[list[str], int]:
    """Return as many lines as can be shown, and the number of the last one."""
    cut, room = list[str](), _MAX_SHOWN_CHARS
    for line in lines[start - 1 : start - 1 + n_lines]:
        if len(line) > room and cut:
            break
        if len(line) > room:
            cut.append(f"{line[:room]}… (cut: this line has {len(line):,} characters)")
            break
        cut.append(line)
        room -= len(line) + 1
    return cut, start - 1 + len(cut)


# ------------------------------------------------------------------------------------ writing


def _writing(root: Folder, limit: int, write: Write) -> list[AnyTool]:
    writer = Writer(root, limit)

    def write_file(ctx: ToolContext[Any], path: str, text: str, version: str = "") -> str:  # noqa: D417 - what a model is told
        """Write a whole file: a new one, or one that you have read. To change a part, use edit_file.

        Args:
            path: The file, such as src/app.py. Folders that are missing are made.
            text: All of its text.
            version: For a file that exists: the version that read_file showed.
        """
        return done(ctx, of_write(path, text, version))

    def edit_file(  # noqa: D417 - what a model is told
        ctx: ToolContext[Any], path: str, old: str, new: str, places: _Places = 1
    ) -> str:
        """Replace a part of a file. The part must stand in the file exactly once, or as often as `places` says.

        Args:
            path: The file, such as src/app.py.
            old: The part as it stands there, with enough around it to be the only one.
            new: What stands there afterwards; empty to remove it.
            places: How often the part stands in the file; each is replaced.
        """
        return done(ctx, of_edit(path, old, new, places))

    def apply_patch(ctx: ToolContext[Any], patch: str) -> str:  # noqa: D417 - what a model is told
        """Apply a unified diff to one or more files: all of it, or nothing.

        Args:
            patch: Begins with `--- a/path` and `+++ b/path`; `/dev/null` for a file that is made or deleted. The lines
                around a change must stand in the file; the numbers after `@@` need not be right.
        """
        return done(ctx, patched(root, patch))

    def done(ctx: ToolContext[Any], edits: Sequence[Edit]) -> str:
        return _done(writer.write(edits, ctx.idempotency_key, lambda: ctx.cancelled, ctx.attempt))

    def of_write(path: str, text: str, version: str = "") -> list[Edit]:
        return [written(root.names_of(path), text, version)]

    def of_edit(path: str, old: str, new: str, places: int = 1) -> list[Edit]:
        return [replaced(root.names_of(path), old, new, places)]

    def shown_write(args: Mapping[str, Any]) -> str:
        return _preview(writer, lambda: of_write(**args))

    def shown_edit(args: Mapping[str, Any]) -> str:
        return _preview(writer, lambda: of_edit(**args))

    def shown_patch(args: Mapping[str, Any]) -> str:
        return _preview(writer, lambda: patched(root, args["patch"]))

    return [
        _changing(write_file, shown_write, write),
        _changing(edit_file, shown_edit, write),
        _changing(apply_patch, shown_patch, write),
    ]


def _changing(fn: Callable[..., str], preview: Callable[..., str], write: Write) -> AnyTool:
    return tool(
        fn,
        effect="keyed",
        approval="ask" if write == "ask" else "never",
        risk="medium",
        sequential=True,
        preview=preview,
    )


def _preview(writer: Writer, edits: Callable[[], Sequence[Edit]]) -> str:
    """Return what a call would do, as the files are now; nothing is done."""
    try:
        planned = writer.planned(edits())
    except (PathDenied, ToolError) as error:
        return f"As the files are now, this call would be refused: {error}"
    diffs = "".join(
        diff_of(
            each.edit.path,
            None if each.before is None else _text(each.before.data),
            None if each.after is None else _text(each.after),
        )
        for each in planned
    )
    if len(planned) == 1:
        return diffs
    # A long preview is cut, so what becomes of each file stands first; indented, no path passes for a line of a diff.
    named = [f"  {_what(e.changed)}: {e.edit.path}, {_stat(e.changed)}\n" for e in planned]
    return f"{len(planned)} files:\n{''.join(named)}\n{diffs}"


def _text(data: bytes) -> str:
    if b"\0" in data:
        return f"({len(data):,} bytes that are not text)\n"
    return data.decode(errors="replace")


def _done(changes: Sequence[Changed]) -> str:
    """Return what was done, as a model reads it."""
    return "\n".join(f"{each.path}: {_outcome(each)}" for each in changes)


def _outcome(change: Changed) -> str:
    what = _what(change)
    stat = "it had this text already" if what == "unchanged" else _stat(change)
    version = f", version {change.after[:VERSION_CHARS]}"
    return f"{what}, {stat}{'' if what == 'deleted' else version}"


def _what(change: Changed) -> str:
    if change.before == change.after:
        return "unchanged"
    if change.after == ABSENT:
        return "deleted"
    return "made" if change.before == ABSENT else "changed"


def _stat(change: Changed) -> str:
    return f"+{change.added} -{change.removed}"
