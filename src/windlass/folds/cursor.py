"""Cursors: where a reader stands, in words that outlive the process that wrote them.

A cursor has two halves. The live half names a position of one incarnation of a feed, so that a reader goes on there
without losing a preview. The place names the last fact that was shown; in any process the store goes on behind it.

    <session>/<incarnation>.<position>/<turn>/<fact>

The first part tells cursors of other sessions apart, and "/" is in no id. A cursor comes back from outside, so it is
read as hostile.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

from windlass.errors import InvalidInput
from windlass.guards.ids import is_id
from windlass.kernel import Event, TurnIds

MAX_CHARS = 512
"""Longer than any cursor."""

_MARK_HEX = 8
# No feed and no turn counts that far; longer digits are not worth converting.
_NUMBER = r"(?:0|[1-9][0-9]{0,17})"
_LIVE = re.compile(rf"(?P<incarnation>.+)\.{_NUMBER}\Z")
# By their number, for a wait or its answer, for an inbox item that entered at a checkpoint, or the end.
_FACT = re.compile(
    rf"(?:{_NUMBER}|wait{_NUMBER}(?:\.over|\.used{_NUMBER})?|end|{_NUMBER}\.(?P<item>.+))\Z"
)


class Place(NamedTuple):
    """Behind which fact of which turn: no fact stands for before its first, no turn for before the session's first."""

    turn_id: str
    fact: str


BEGINNING = Place("", "")
"""Before the session's first turn."""


class Cursor(NamedTuple):
    """A cursor that was read; `live` is empty where only the place is known."""

    live: str
    place: Place


def write_cursor(session_id: str, live: str, place: Place) -> str:
    """Return the cursor of a place in a session, and of the position in a live feed if there is one."""
    return f"{_mark(session_id)}/{live}/{place.turn_id}/{place.fact}"


def read_cursor(text: str, session_id: str) -> Cursor:
    """Return what a cursor of this session says.

    Raises:
        InvalidInput: it is not a cursor, or one of another session.
    """
    if not isinstance(text, str):
        raise InvalidInput.at("cursor", type(text).__name__, "text")
    if len(text) > MAX_CHARS:
        raise InvalidInput.at("cursor", f"{len(text):,} characters", f"at most {MAX_CHARS}")
    parts = text.split("/")
    if len(parts) != 4:
        raise InvalidInput.at("cursor", f"{len(parts)} parts", "4, divided by /")
    mark, live, turn_id, fact = parts
    if mark != _mark(session_id):
        raise InvalidInput.at("cursor", "one of another session", "one of this session")
    if live:
        named = _LIVE.match(live)
        if named is None or not is_id(named["incarnation"]):
            raise InvalidInput.at("cursor", "no position of a feed", "a feed and a number")
    _check_place(turn_id, fact)
    return Cursor(live, Place(turn_id, fact))


def _check_place(turn_id: str, fact: str) -> None:
    if turn_id and not is_id(turn_id):
        raise InvalidInput.at("cursor", "a turn that has no id", "a turn's id")
    if not fact:
        return
    named = _FACT.match(fact)
    item = None if named is None else named["item"]
    if not turn_id or named is None or (item is not None and not is_id(item)):
        raise InvalidInput.at("cursor", "no fact of a turn", "what the id of a fact ends with")


def _mark(session_id: str) -> str:
    return sha256(session_id.encode()).hexdigest()[:_MARK_HEX]


# ---------------------------------------------------------------------- places


def place_of(fact: Event, session_id: str, turn_id: str) -> Place:
    """Return the place behind a fact of a turn.

    Raises:
        InvalidInput: it is none.
    """
    prefix = TurnIds(session_id, turn_id).event("")
    if fact.preview or not fact.id.startswith(prefix):
        found = "a preview" if fact.preview else "an event of another turn"
        raise InvalidInput.at("fact", found, f"a fact of the turn {turn_id}")
    return Place(turn_id, fact.id.removeprefix(prefix))


def facts_behind(facts: Sequence[Event], place: Place) -> list[Event]:
    """Return the facts of a turn that come behind a place in it.

    Raises:
        InvalidInput: there is no such fact.
    """
    if not place.fact:
        return list(facts)
    for at in reversed(range(len(facts))):
        # Behind the turn's prefix, which holds no dot.
        if facts[at].id.partition(".")[2] == place.fact:
            return list(facts[at + 1 :])
    raise InvalidInput.at("cursor", "a fact that its turn does not have", "one that was shown")
