"""`windlass repair`: a way on for a session whose history a provider rejects."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, NamedTuple

from cyclopts import Parameter

from windlass import Runtime, TurnResult
from windlass.cli import arguments, exit_code, terminal
from windlass.cli.agents import check_agent, choose
from windlass.cli.opening import find_session, with_runtime
from windlass.cli.output import result_record, write_json
from windlass.cli.settings import read_settings
from windlass.cli.terminal import console, count, is_finished, note
from windlass.errors import UnknownSession
from windlass.guards.text import LARGE
from windlass.kernel import Message
from windlass.kernel.canonical import encode
from windlass.kernel.repair import n_attachments


def repair(
    session: arguments.SessionWord,
    /,
    *,
    hide: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    attachments: bool = False,
    agent: arguments.AgentOption = None,
    store: arguments.StoreOption = None,
    json: arguments.JsonOption = False,
) -> int:
    """Hide messages that a provider rejects, so that a session can go on. Without a wish, list what may be the cause.

    Nothing is deleted: the model sees the rest of the history, and `windlass show` all of it.

    Args:
        hide: the id of a message; may be given more than once
        attachments: show the model the names of all attachments instead
    """
    if not hide and not attachments:
        suspects = with_runtime(store, lambda runtime: _suspects(runtime, session))
        _list(session, suspects, json=json)
        return exit_code.OK
    settings = read_settings(agent=agent, store=store)
    choice = choose(settings)
    runtime = Runtime(
        choice.agent,
        store=settings.store,
        durability=settings.durability,
        only_session=choice.only(session),
    )

    async def hidden() -> TurnResult[str]:
        found = await find_session(settings, session, history=False)
        if found is None:
            raise UnknownSession(f"session: {session} is not known", field="session")
        check_agent(found, choice, settings)
        async with runtime:
            return await runtime.session(session).repair(hide=hide, attachments=attachments)

    result = asyncio.run(hidden())
    if json:
        write_json(result_record(result))
    else:
        console().print(result.text or "There is nothing to hide.")
    return exit_code.OK if is_finished(result.outcome) else exit_code.NOT_FINISHED


class Suspect(NamedTuple):
    """A message that a provider may reject, and why."""

    id: str
    role: str
    why: str


async def _suspects(runtime: Runtime[Any], session_id: str) -> list[Suspect]:
    frame = await runtime.session(session_id).frame()
    return [Suspect(one.id, one.role, why) for one in frame if (why := _why(one))]


def _why(message: Message) -> str:
    reasons = []
    n_files = n_attachments(message)
    if n_files:
        reasons.append(count(n_files, "attachment"))
    size = len(encode(message))
    if size > LARGE:
        reasons.append(f"{size:,} bytes")
    return ", ".join(reasons)


def _list(session: str, suspects: list[Suspect], *, json: bool) -> None:
    if json:
        for suspect in suspects:
            write_json(suspect._asdict())
        return
    if not suspects:
        note("no message that the model sees has attachments or is large; windlass show lists them")
        return
    rows = [[terminal.safe(field) for field in suspect] for suspect in suspects]
    terminal.print_table(("message", "role", "why"), rows, ("cyan",))
    note(f"hide one: windlass repair {session} --hide MESSAGE, or all files: --attachments")
