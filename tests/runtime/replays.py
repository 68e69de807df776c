"""Turns as a store keeps them, and what has to hold when they are replayed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from tests.runtime.sealed import Outside
from windlass import Runtime
from windlass.journal.pages import JournalPage
from windlass.kernel import Message
from windlass.ports import SessionView, Store, TurnView
from windlass.runtime.program import Program
from windlass.runtime.replaying import Replayed, replay
from windlass.runtime.turn_record import messages_in


class Kept(NamedTuple):
    """A turn and its session as a store has them, and the agent that drove it."""

    program: Program
    view: TurnView
    session: SessionView

    @property
    def committed(self) -> tuple[Message, ...]:
        """What it has added to the history."""
        assert self.view.page is not None
        return messages_in(self.view.page.nodes)

    def with_view(self, **changes: Any) -> Kept:
        """Return it with another view of the turn."""
        return self._replace(view=msgspec.structs.replace(self.view, **changes))


async def kept(rt: Runtime[Any], turn_id: str = "t", session_id: str = "s") -> Kept:
    """Return a turn of a runtime."""
    view, session = await read(rt._services.store, session_id, turn_id)
    return Kept(rt._programs[view.agent], view, session)


async def read(store: Store, session_id: str, turn_id: str) -> tuple[TurnView, SessionView]:
    """Return all that a replay of a turn is given."""
    view = await store.load_turn(session_id, turn_id)
    assert view is not None
    return view, await store.load_session(session_id)


async def replayed(turn: Kept, **settings: Any) -> Replayed:
    """Replay a turn with an agent of which nothing may be called.

    Raises:
        AssertionError: something was.
    """
    outside = Outside()
    try:
        return await replay(outside.sealed(turn.program), turn.view, turn.session, **settings)
    finally:
        assert not outside.asked, f"asked: {', '.join(outside.asked)}"


async def check_same(turn: Kept) -> Replayed:
    """See that a finished turn replays to what is committed."""
    found = await replayed(turn)
    assert found.state == "ends", f"{found.state} {found.at} {found.why} {found.diff}"
    assert (found.why, found.diff, found.at) == ("", (), "")
    assert found.outcome == turn.view.outcome
    assert found.messages == turn.committed
    assert found.is_same is True
    return found


async def check_prefixes(turn: Kept) -> list[Replayed]:
    """See that at every moment of its life the turn would have replayed as far as it had come; return each replay."""
    found = []
    n_said = n_effects = 0
    for view in prefixes(turn.view):
        one = await replayed(turn._replace(view=view))
        assert one.state in ("goes_on", "ends"), f"{one.state} {one.at} {one.why} {one.diff}"
        assert one.is_same is None
        assert one.messages == turn.committed[: len(one.messages)]
        assert len(one.messages) >= n_said
        assert one.effects >= n_effects
        n_said, n_effects = len(one.messages), one.effects
        found.append(one)
    return found


def prefixes(view: TurnView) -> Iterator[TurnView]:
    """Return a turn as it was after each entry of its journal, before anything ended or cancelled it."""
    whole: tuple[JournalPage, ...] = ()
    running = msgspec.structs.replace(
        view, state="running", page=None, outcome=None, receipt=None, cancel=None, pages=()
    )
    for page in view.pages:
        for n_entries in range(1, len(page.entries) + 1):
            cut = msgspec.structs.replace(page, entries=page.entries[:n_entries])
            yield msgspec.structs.replace(running, pages=(*whole, cut))
        whole = (*whole, page)
