"""`windlass chat`: a conversation in the terminal that outlives its process."""

from __future__ import annotations

import asyncio
from secrets import token_hex
from typing import Annotated, Any

from cyclopts import Parameter

from windlass import Runtime
from windlass.api.adapters import open_store
from windlass.cli.agent_choice import Choice, choose, choose_deps
from windlass.cli.opening import check_agent
from windlass.cli.options import AgentOption, ByOption, DepsOption, ModelOption, StoreOption
from windlass.cli.settings import Settings, read_settings
from windlass.cli.talk.conversation import Conversation, Left
from windlass.cli.talk.json_talk import talk_in_json
from windlass.cli.talk.leftover import Leftover, find_leftover
from windlass.cli.talk.loop_thread import LoopThread
from windlass.cli.talk.prompt import prepared_terminal
from windlass.cli.talk.screen import Screen
from windlass.cli.terminal import console
from windlass.runtime.system_clock import SystemClock


def chat(  # noqa: PLR0913 - every option has a default
    *,
    session: Annotated[
        str | None,
        Parameter(name="--session", help="the session's id: a known one goes on where it was"),
    ] = None,
    agent: AgentOption = None,
    model: ModelOption = None,
    deps: DepsOption = None,
    by: ByOption = None,
    store: StoreOption = None,
    json: Annotated[
        bool,
        Parameter(name="--json", help="a line of standard input is a turn, and its result a line"),
    ] = False,
) -> int:
    """Talk to an agent. Ctrl-C cancels the turn and keeps the session; kill -9 costs you nothing.

    A line that ends with a backslash goes on in the next one, three double quotes begin a block. /help says more.
    """
    settings = read_settings(agent=agent, model=model, store=store, by=by)
    choice = choose(settings)
    runtime = Runtime(
        choice.agent,
        store=settings.store,
        durability=settings.durability,
        deps=choose_deps(deps, settings),
    )
    session_id = session or f"chat-{token_hex(4)}"
    asyncio.run(check_agent(settings, choice.agent, session_id))
    if json:
        return talk_in_json(runtime, session_id, choice.override)
    with prepared_terminal(), LoopThread() as loop:
        return _talk(runtime, loop, (settings, choice), session_id)


def _talk(
    runtime: Runtime[Any], loop: LoopThread, given: tuple[Settings, Choice], session_id: str
) -> int:
    settings, choice = given
    screen = Screen(console())
    screen.say(f"windlass chat · {choice.told} · {settings.store} · /help", "dim")
    # Before anybody here drives: what is in the journal now is what the last process left.
    found = loop.call(_look(settings, session_id))
    if found is None:
        screen.say(
            f"new session {session_id}: windlass chat --session {session_id} goes on with it", "dim"
        )
    else:
        found.show(screen)
    loop.call(runtime.__aenter__())
    try:
        talk = Conversation(
            runtime,
            loop,
            screen,
            session_id=session_id,
            model=choice.override,
            by=settings.by,
        )
        if found is not None and found.turn is not None:
            try:
                talk.attach(found.turn.turn_id)
            except Left as left:
                return left.code
        return talk.go()
    finally:
        loop.call(runtime.__aexit__(None, None, None))


async def _look(settings: Settings, session_id: str) -> Leftover | None:
    if settings.store == "memory:":
        return None
    rows = open_store(settings.store, settings.durability)
    await rows.open()
    try:
        return await find_leftover(rows, session_id, now_ms=SystemClock().now_ms())
    finally:
        await rows.close()
