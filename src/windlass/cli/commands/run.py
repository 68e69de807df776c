"""`windlass run` and `chat`: one turn, and a conversation that survives its process."""

from __future__ import annotations

import asyncio
import shlex
import sys
from pathlib import Path
from secrets import token_hex
from typing import Any

from windlass import Runtime, TurnResult
from windlass.cli import arguments, exit_code
from windlass.cli.agents import Choice, check_agent, choose, choose_deps, chosen_model
from windlass.cli.opening import find_session
from windlass.cli.output import plain, result_record, write_json
from windlass.cli.settings import Settings, checked_store, flags_again, read_settings
from windlass.cli.talk.conversation import Conversation, Left, LoopThread
from windlass.cli.talk.prompt import prepared_terminal
from windlass.cli.talk.screen import Screen, show_leftover
from windlass.cli.terminal import (
    answer_text,
    call_line,
    console,
    ending,
    is_finished,
    note,
    wait_line,
)
from windlass.errors import InvalidInput
from windlass.kernel import events as kernel_events

# The settings by which the next process finds the same agent and store, and answers in the same name.
_AGAIN = ("agent", "model", "tools", "store", "by")


def run(  # noqa: PLR0913 - every option has a default
    prompt: str | None = None,
    /,
    *,
    agent: arguments.AgentOption = None,
    model: arguments.ModelOption = None,
    session: str | None = None,
    turn: str | None = None,
    events: bool = False,
    tools: arguments.ToolsOption = None,
    deps: arguments.DepsOption = None,
    store: arguments.StoreOption = None,
    json: arguments.JsonOption = False,
) -> int:
    """Run one turn until it ends or waits for an answer. Exits with 0, 1 or 3; see windlass --help.

    Args:
        prompt: the message; without it, standard input is read
        session: the session's id; else a new one
        turn: the turn's id: the same id is the same turn
        events: with --json: a line per event, then the result
    """
    settings = read_settings(agent=agent, model=model, store=store, tools=tools)
    said = sys.stdin.read() if prompt is None and not sys.stdin.isatty() else prompt
    if said is None or not said.strip():
        raise InvalidInput.at("prompt", "no text", "a message as argument or on standard input")
    choice = choose(settings)
    session_id = session or f"run-{token_hex(6)}"
    runtime = _runtime(choice, settings, session_id, deps)

    def show(event: kernel_events.Event) -> None:
        if json and events:
            write_json({"event": type(event).__name__, "preview": event.preview, **plain(event)})
        elif not json and isinstance(event, kernel_events.ToolFinished):
            note(f"{call_line(event.name, event.args)}: {event.outcome.status}")

    async def one_turn() -> TurnResult[Any]:
        check_agent(await find_session(settings, session_id, history=False), choice, settings)
        if not json:
            note(f"session {session_id}, {choice.told}")
        async with runtime:
            return await runtime.session(session_id).run(
                said,
                turn_id=turn,
                model=choice.override,
                context=choice.context,
                on_event=show,
            )

    result = asyncio.run(one_turn())
    if json:
        write_json(result_record(result))
    else:
        _tell(result)
    return _code(result)


def _runtime(choice: Choice, settings: Settings, session_id: str, deps: str | None) -> Runtime[Any]:
    return Runtime(
        choice.agent,
        store=checked_store(settings),
        durability=settings.durability,
        deps=choose_deps(deps, settings),
        only_session=choice.only(session_id),
    )


def _tell(result: TurnResult[Any]) -> None:
    said = answer_text(result.outcome, result.text)
    if said:
        console().print(said, soft_wrap=True)
    if result.parked:
        for wait in result.waits:
            note(wait_line(wait))
    elif not is_finished(result.outcome):
        note(ending(result.outcome))


def _code(result: TurnResult[Any]) -> int:
    if result.parked:
        return exit_code.PARKED
    return exit_code.OK if is_finished(result.outcome) else exit_code.NOT_FINISHED


# ---------------------------------------------------------------------- a conversation


def chat(  # noqa: PLR0913 - every option has a default
    *,
    session: str | None = None,
    code: bool = False,
    agent: arguments.AgentOption = None,
    model: arguments.ModelOption = None,
    tools: arguments.ToolsOption = None,
    deps: arguments.DepsOption = None,
    by: arguments.ByOption = None,
    store: arguments.StoreOption = None,
    json: bool = False,
) -> int:
    """Talk to an agent. Ctrl-C cancels the turn and keeps the session; kill -9 loses nothing.

    A line that ends with a backslash continues on the next one, three double quotes start a block. /help says more.

    Args:
        session: the session's id: a known one continues where it was
        code: talk to an agent that changes files here; it shows each change and asks first
        json: each line of standard input is a turn; print its result
    """
    settings = read_settings(agent=agent, model=model, store=store, by=by, tools=tools)
    choice = choose(settings, code=code)
    session_id = session or f"chat-{token_hex(4)}"
    runtime = _runtime(choice, settings, session_id, deps)
    # Before this process drives: the journal now holds what the last process left.
    found = asyncio.run(find_session(settings, session_id, history=True))
    check_agent(found, choice, settings)
    if json:
        return _talk_in_json(runtime, session_id, choice)
    screen = Screen(console())
    cursor: str | None = None
    with prepared_terminal():
        screen.say(f"windlass chat · {choice.told} · {settings.store} · /help", "dim")
        if found is None:
            flags = " --code" * code + flags_again(settings, *_AGAIN)
            flags += "" if deps is None else f" --deps {shlex.quote(deps)}"
            again = f"windlass chat{flags} --session {shlex.quote(session_id)}"
            screen.say(f"new session; to continue it: {again}", "dim")
        if code:
            _tell_notices(settings, screen, chosen_model(settings)[0])
        if found is not None:
            cursor = show_leftover(found, screen)
        with LoopThread() as loop, loop.opened(runtime):
            talk = Conversation(
                runtime, loop, screen, session_id=session_id, choice=choice, settings=settings
            )
            try:
                if found is not None and found.turn is not None:
                    talk.attach(found.turn.turn_id, cursor)
            except Left as left:
                return left.code
            return talk.go()


def _tell_notices(settings: Settings, screen: Screen, model: str) -> None:
    from windlass.cli.own_agents import notices  # noqa: PLC0415 - only for the coder

    for told in notices(settings, Path.cwd(), model):
        screen.say(told, "dim")


def _talk_in_json(runtime: Runtime[Any], session_id: str, choice: Choice) -> int:
    """Run a turn per line until the input ends or a turn waits; return the last one's exit code."""
    code = exit_code.OK
    with LoopThread() as loop, loop.opened(runtime):
        while line := sys.stdin.readline():
            if not line.strip():
                continue
            result = loop.call(
                runtime.session(session_id).run(
                    line.strip(), model=choice.override, context=choice.context
                )
            )
            write_json(result_record(result))
            code = _code(result)
            if result.parked:
                break
    return code
