"""`windlass export` and `import`: a session as text, out of a store and into one."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from cyclopts import Parameter

from windlass import Runtime
from windlass.api.archive import export_session
from windlass.cli import keys, output, terminal
from windlass.cli.arguments import JsonOption, SessionWord, StoreOption
from windlass.cli.opening import with_store
from windlass.cli.settings import read_settings
from windlass.cli.terminal import console, count
from windlass.errors import InvalidInput
from windlass.ports import SessionView


def export(
    session: SessionWord,
    /,
    *,
    format: Annotated[  # noqa: A002 - the flag's name
        Literal["jsonl", "markdown"], Parameter(show_default=True)
    ] = "jsonl",
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Write a session to standard output: a line about it, then a line per turn, oldest first.

    Attachments follow, a line for each. `windlass import` reads these lines.

    Args:
        format: JSON lines, or Markdown to read
    """
    if format == "markdown" and not json:
        sys.stdout.write(_markdown(with_store(store, lambda rows: rows.load_session(session))))
        return
    for line in with_store(store, lambda rows: export_session(rows, session, keys.clean)):
        output.write_json(msgspec.json.decode(line))


def _markdown(view: SessionView) -> str:
    about = f"Agent {view.agent}, started {terminal.moment(view.created_ms)}."
    lines = [f"# {view.session_id}", "", about]
    for number, page in enumerate(view.pages, start=1):
        lines += ["", f"## Turn {number}: {terminal.ending(page.outcome)}", ""]
        for message in output.page_messages(page):
            lines += [f"**{terminal.speaker(message)}**", "", terminal.message_text(message), ""]
    return "\n".join(lines).rstrip() + "\n"


def import_(
    file: Annotated[
        str | None, Parameter(help="what `windlass export` wrote; else standard input")
    ] = None,
    /,
    *,
    new_id: Annotated[str | None, Parameter(name="--as", help="another id for the session")] = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Make a session of what `windlass export` wrote: all of it, or nothing.

    Every line is checked against its digest. What the turns used does not count as used here.
    """
    settings = read_settings(store=store)
    runtime: Runtime[Any] = Runtime(store=settings.store, durability=settings.durability)
    text = _read(file)

    async def read_in() -> str:
        async with runtime:
            return (await runtime.import_session(text, id=new_id)).id

    made = asyncio.run(read_in())
    turns = with_store(store, lambda rows: rows.load_session(made, history=False)).head
    if json:
        output.write_json({"session": made, "turns": turns})
    else:
        console().print(f"{made}: imported with {count(turns, 'turn')}")


def _read(file: str | None) -> str:
    try:
        data = sys.stdin.buffer.read() if file is None else Path(file).read_bytes()
        return data.decode()
    except OSError as error:
        raise InvalidInput(f"file: {file}: {error.strerror}", field="file") from None
    except UnicodeDecodeError:
        raise InvalidInput.at(
            "file", "bytes that are not UTF-8", "what windlass export wrote"
        ) from None
