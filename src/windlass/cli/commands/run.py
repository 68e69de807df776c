"""`windlass run`: one turn, and what it came to."""

from __future__ import annotations

import asyncio
import sys
from secrets import token_hex
from typing import Annotated, Any

from cyclopts import Parameter

from windlass import Runtime, TurnResult
from windlass.cli import exit_code, records
from windlass.cli.agent_choice import Choice, choose, choose_deps
from windlass.cli.json_lines import plain, write_json
from windlass.cli.opening import check_agent
from windlass.cli.options import AgentOption, DepsOption, JsonOption, ModelOption, StoreOption
from windlass.cli.settings import Settings, read_settings
from windlass.cli.terminal import console, note
from windlass.cli.wording import answer_text, call_line, ending, is_finished
from windlass.errors import InvalidInput
from windlass.kernel import events


def run(  # noqa: PLR0913 - every option has a default
    prompt: Annotated[
        str | None, Parameter(help="what to say; else it is read from standard input")
    ] = None,
    /,
    *,
    agent: AgentOption = None,
    model: ModelOption = None,
    session: Annotated[
        str | None, Parameter(name="--session", help="the session's id; else a new one")
    ] = None,
    turn: Annotated[
        str | None,
        Parameter(name="--turn", help="the turn's id: the same id is the same turn"),
    ] = None,
    events: Annotated[
        bool, Parameter(name="--events", help="with --json: a line per event, then the result")
    ] = False,
    deps: DepsOption = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> int:
    """Run one turn to its end, or until it waits for somebody. Ends with 0, 1 or 3; see windlass --help."""
    settings = read_settings(agent=agent, model=model, store=store)
    said = sys.stdin.read() if prompt is None and not sys.stdin.isatty() else prompt
    if said is None or not said.strip():
        raise InvalidInput("prompt: there is nothing in it", field="prompt")
    once = _Run(settings, deps, is_json=json, tells_events=events and json)
    place = (session or f"run-{token_hex(6)}", turn)
    result = asyncio.run(once.go(place, said))
    once.tell(result)
    return _code(result)


class _Run:
    """One turn from the command line."""

    def __init__(
        self, settings: Settings, deps: str | None, *, is_json: bool, tells_events: bool
    ) -> None:
        self._settings = settings
        self._is_json = is_json
        self._tells_events = tells_events
        self._choice: Choice = choose(settings)
        self._runtime: Runtime[Any] = Runtime(
            self._choice.agent,
            store=settings.store,
            durability=settings.durability,
            deps=choose_deps(deps, settings),
        )

    async def go(self, place: tuple[str, str | None], said: str) -> TurnResult[Any]:
        """Run the turn."""
        session_id, turn_id = place
        await check_agent(self._settings, self._choice.agent, session_id)
        if not self._is_json:
            note(f"session {session_id}, {self._choice.told}")
        async with self._runtime as runtime:
            session = runtime.session(session_id)
            return await session.run(
                said, turn_id=turn_id, model=self._choice.override, on_event=self._show
            )

    def _show(self, event: events.Event) -> None:
        if self._tells_events:
            write_json({"event": type(event).__name__, "preview": event.preview, **plain(event)})
        elif not self._is_json and isinstance(event, events.ToolFinished):
            note(f"{call_line(event.name, event.args)}: {event.outcome.status}")

    def tell(self, result: TurnResult[Any]) -> None:
        """Print what the turn came to."""
        if self._is_json:
            write_json(records.result_record(result))
            return
        said = answer_text(result.outcome, result.text)
        if said:
            console().print(said, soft_wrap=True)
        if result.parked:
            for wait in result.waits:
                note(f"waits ({wait.kind}): {wait.title or 'for an answer'}, key {wait.key}")
        elif not is_finished(result.outcome):
            note(ending(result.outcome))


def _code(result: TurnResult[Any]) -> int:
    if result.parked:
        return exit_code.PARKED
    return exit_code.OK if is_finished(result.outcome) else exit_code.NOT_FINISHED
