"""`windlass tail`: the facts of a session's turns as they become durable, whichever process drives them."""

from __future__ import annotations

import asyncio
from typing import Annotated

from cyclopts import Parameter

from windlass.cli import output, terminal
from windlass.cli.arguments import JsonOption, SessionWord, StoreOption
from windlass.cli.opening import with_store
from windlass.cli.terminal import console, ending, line, one_line
from windlass.kernel import Event, events
from windlass.ports import Store, TurnView
from windlass.runtime.folded import FoldedTurns

_LOOK_S = 0.25


def tail(
    session: SessionWord,
    /,
    *,
    follow: Annotated[bool, Parameter(name=["--follow", "-f"])] = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Watch the unfinished turn until it ends or waits; with --follow, also all later turns.

    Args:
        follow: continue after the turn has ended
    """
    watched = _Tail(session, is_json=json)
    with_store(store, lambda rows: watched.watch(rows, follow=follow))


class _Tail:
    """Reads the store again and again, and shows what is new."""

    def __init__(self, session: str, *, is_json: bool) -> None:
        self._session = session
        self._is_json = is_json
        # How many facts of each turn were shown.
        self._shown: dict[str, int] = {}
        self._states: dict[str, str] = {}
        self._head: int | None = None

    async def watch(self, rows: Store, *, follow: bool) -> None:
        """Look until there is nothing more to see."""
        folded = FoldedTurns(rows)
        while True:
            view = await rows.load_session(self._session, history=False)
            pending = [turn for turn, state in self._states.items() if state != "done"]
            ended = await self._ended(rows, view.head)
            for turn_id in dict.fromkeys([*pending, *ended, *filter(None, [view.active])]):
                await self._look(folded, turn_id)
            rests = view.active is None or self._states.get(view.active) in ("parked", "done")
            if rests and not follow:
                return
            await asyncio.sleep(_LOOK_S)

    async def _ended(self, rows: Store, head: int) -> list[str]:
        """Return the turns that ended since the last look: one may start and end between two."""
        before, self._head = self._head, head
        if before is None or head <= before:
            return []
        pages = (await rows.load_session(self._session)).pages
        return [page.turn_id for page in pages[before - head :]]

    async def _look(self, folded: FoldedTurns, turn_id: str) -> None:
        found = await folded.of(self._session, turn_id)
        if found is None or self._states.get(turn_id) == "done":
            return
        turn, facts = found.view, found.fold.facts
        for fact in facts[self._shown.get(turn_id, 0) :]:
            self._show_fact(turn, fact)
        self._shown[turn_id] = len(facts)
        if self._states.get(turn_id) != turn.state:
            self._states[turn_id] = turn.state
            self._show_state(turn)

    def _show_fact(self, turn: TurnView, fact: Event) -> None:
        if self._is_json:
            place = {"session": turn.session_id, "turn": turn.turn_id}
            output.write_json({**place, "event": output.plain(fact)})
            return
        what, told = _in_words(fact)
        console().print(line((f"{what:<8}", "cyan"), (told, "default")))

    def _show_state(self, turn: TurnView) -> None:
        waits = [each.wait for each in turn.waits if each.state == "open"]
        if self._is_json:
            record = {
                "session": self._session,
                "turn": turn.turn_id,
                "state": turn.state,
                "outcome": output.plain(turn.outcome),
                "waits": [output.wait_record(wait) for wait in waits],
            }
            output.write_json(record)
            return
        told = ending(turn.outcome) if turn.state == "done" else ", ".join(w.kind for w in waits)
        words = f"turn {turn.turn_id}: {turn.state}{f' ({told})' if told else ''}"
        console().print(line((words, "bold")))


def _in_words(fact: Event) -> tuple[str, str]:  # noqa: PLR0911 - a table
    """Return what a fact is, and what it says, on one line."""
    match fact:
        case events.ModelFinished(text=text, calls=calls):
            asked = [f"→ {terminal.call_line(call.name, call.args, 80)}" for call in calls]
            return "reply", one_line(" ".join(filter(None, [text, *asked])), 160)
        case events.UsageReported(usage=usage):
            return "used", f"{usage.prompt_tokens} tokens in, {usage.output_tokens} out"
        case events.ToolFinished(name=name, args=args, outcome=outcome):
            ran = terminal.call_line(name, args, 80)
            return "result", f"{ran} {outcome.status}: {terminal.result_line(outcome, 120)}"
        case events.InputAccepted(input_id=input_id):
            return "input", input_id
        case events.WaitOpened(key=key, kind=kind, title=title):
            return "wait", one_line(f"{terminal.short_key(key)} {kind}: {title}", 160)
        case events.WaitResolved(key=key, kind=kind, status=status, by=by):
            who = f" by {by}" if by else ""
            return "answer", one_line(f"{terminal.short_key(key)} {kind}: {status}{who}", 160)
        case events.Error(message=message, code=code):
            return "error", one_line(f"{code}: {message}" if code else message, 160)
        case events.TurnEnded(outcome=outcome):
            return "end", ending(outcome)
        case _:
            return "event", type(fact).__name__
