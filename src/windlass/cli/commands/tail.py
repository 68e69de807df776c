"""`windlass tail`: a session as its journal grows, whichever process drives it."""

from __future__ import annotations

import asyncio
from typing import Annotated

from cyclopts import Parameter
from rich.text import Text

from windlass.cli import records
from windlass.cli.journal_rows import JournalRow, journal_rows
from windlass.cli.json_lines import write_json
from windlass.cli.opening import opened_store
from windlass.cli.options import JsonOption, SessionWord, StoreOption
from windlass.cli.terminal import console
from windlass.cli.wording import ending, safe
from windlass.ports import Store, TurnView

_LOOK_S = 0.25


def tail(
    session: SessionWord,
    /,
    *,
    follow: Annotated[
        bool, Parameter(name=["--follow", "-f"], help="go on after the turn has ended")
    ] = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> int:
    """Watch the turn under way until it ends or waits for somebody; with --follow, all that come."""
    asyncio.run(_Tail(session, is_json=json).go(store, follow=follow))
    return 0


class _Tail:
    """Looks into the store and shows what is new."""

    def __init__(self, session: str, *, is_json: bool) -> None:
        self._session = session
        self._is_json = is_json
        self._units: dict[str, int] = {}
        self._states: dict[str, str] = {}
        self._head: int | None = None

    async def go(self, store: str | None, *, follow: bool) -> None:
        """Look until there is nothing more to see."""
        async with opened_store(store) as rows:
            while True:
                view = await rows.load_session(self._session, history=False)
                pending = [turn for turn, state in self._states.items() if state != "done"]
                ended = await self._ended(rows, view.head)
                for turn_id in dict.fromkeys([*pending, *ended, *filter(None, [view.active])]):
                    await self._look(rows, turn_id)
                rests = view.active is None or self._states.get(view.active) in ("parked", "done")
                if rests and not follow:
                    return
                await asyncio.sleep(_LOOK_S)

    async def _ended(self, rows: Store, head: int) -> list[str]:
        """Return the turns that ended since the last look: one may begin and end between two."""
        before, self._head = self._head, head
        if before is None or head <= before:
            return []
        pages = (await rows.load_session(self._session)).pages
        return [page.turn_id for page in pages[before - head :]]

    async def _look(self, rows: Store, turn_id: str) -> None:
        turn = await rows.load_turn(self._session, turn_id)
        if turn is None:
            return
        for each in journal_rows(turn, self._units.get(turn_id, 0)):
            self._show_row(turn, each)
        self._units[turn_id] = len(turn.pages)
        if self._states.get(turn_id) != turn.state:
            self._states[turn_id] = turn.state
            self._show_state(turn)

    def _show_row(self, turn: TurnView, each: JournalRow) -> None:
        if self._is_json:
            write_json({"session": self._session, "turn": turn.turn_id, **each.record()})
            return
        line = Text(f"{each.unit:>3} {each.entry:<9}", style="cyan")
        line.append(f"{each.asked}", style="default")
        if each.answered:
            line.append(f"  ⇒ {each.answered}", style="green")
        console().print(line)

    def _show_state(self, turn: TurnView) -> None:
        if self._is_json:
            waits = [records.wait_record(each.wait) for each in turn.waits if each.state == "open"]
            write_json(
                {
                    "session": self._session,
                    "turn": turn.turn_id,
                    "state": turn.state,
                    "outcome": records.outcome_record(turn.outcome),
                    "waits": waits,
                }
            )
            return
        open_waits = ", ".join(each.wait.kind for each in turn.waits if each.state == "open")
        told = ending(turn.outcome) if turn.state == "done" else open_waits
        words = f"turn {safe(turn.turn_id)}: {turn.state}{f' ({told})' if told else ''}"
        console().print(Text(words, style="bold"))
