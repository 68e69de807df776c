"""Hand-offs as a worker and its callers see them: whose a session is, what follows a turn, and what goes along."""

from __future__ import annotations

import logging
from collections.abc import Mapping, MutableMapping
from contextlib import suppress

from windlass.errors import ConfigError
from windlass.kernel import HandedOff, Outcome
from windlass.ports import NewTurn, Store, TurnView
from windlass.ports.children import Tree
from windlass.ports.hand_off import turn_after
from windlass.ports.views import NO_PAGES
from windlass.runtime.program import Program
from windlass.runtime.starting import NONE_GIVEN

_log = logging.getLogger("windlass")


class OtherAgent(Exception):
    """The session belongs to another agent than the caller thought: the turn is asked for again, of that one."""

    def __init__(self, agent: str) -> None:
        super().__init__(agent)
        self.agent = agent


def check_agent(programs: Mapping[str, Program], turn: NewTurn, agent: str) -> None:
    """Refuse a turn of another agent than the session's.

    Raises:
        OtherAgent: it is one, and not the same under an earlier name.
    """
    mine, sessions = programs.get(turn.agent), programs.get(agent)
    if turn.agent != agent and (mine is None or mine is not sessions):
        raise OtherAgent(agent)


async def turn_behind(
    store: Store, session_id: str, turn_id: str, outcome: Outcome | None
) -> str | None:
    """Return the turn that goes on where one ended so; None if it did not hand off, or nothing followed it."""
    if not isinstance(outcome, HandedOff):
        return None
    after = turn_after(turn_id)
    return after if await store.load_turn(session_id, after, since=NO_PAGES) is not None else None


def deps_of(
    given: Mapping[tuple[str, str], object], session_id: str, view: TurnView, program: Program
) -> object:
    """Return the deps that a caller gave with a turn; a child that nothing else gives any has those above it."""
    own = given.get((session_id, view.turn_id), NONE_GIVEN)
    if own is not NONE_GIVEN or not program.needs_deps or program.deps is not None:
        return own
    assert view.request is not None  # noqa: S101 - it is about to be driven
    for above in reversed(Tree.of(view.request).above):
        lent = given.get((above.session_id, above.turn_id), NONE_GIVEN)
        if lent is not NONE_GIVEN and program.takes_deps(lent):
            return lent
    return NONE_GIVEN


def pass_on_deps(
    deps: MutableMapping[tuple[str, str], object],
    programs: Mapping[str, Program],
    key: tuple[str, str],
    outcome: Outcome,
) -> None:
    """Keep the deps that came with a turn for the one that it handed off to, if they fit; else they go."""
    given = deps.pop(key, NONE_GIVEN)
    if not isinstance(outcome, HandedOff):
        return
    session_id, target = key[0], programs.get(outcome.target)
    if target is None:
        said = "session %s was handed off to the agent %s, which this runtime does not have: another worker goes on"
        _log.warning(said, session_id, outcome.target)
    elif given is not NONE_GIVEN and target.needs_deps:
        with suppress(ConfigError):
            target.check_deps(given, field="deps")
            deps[session_id, turn_after(key[1])] = given
