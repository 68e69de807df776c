"""Turns that other turns begin: their place in the tree, who learns of their end, and what the end says."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Literal, TypeAlias

import msgspec

from windlass.journal import UsageLine
from windlass.journal.usage import sum_usage
from windlass.kernel import Json, Outcome, events
from windlass.kernel.model_call import Usage
from windlass.kernel.outcomes import Finished, FinishedByTool, FinishedValue, HandedOff, Stopped
from windlass.kernel.value import EMPTY_DICT, JsonValue, Value
from windlass.ports.unit import SessionKind, TurnRequest
from windlass.ports.waits import Wait

CHILD_SOURCE = "child:"
"""The prefix of the source of usage lines that belong to a child, not to the turn itself."""
_FINISHED = (Finished, FinishedValue, FinishedByTool)


class Ends(JsonValue, kw_only=True):
    """Who learns how a turn ended: a wait of another turn, or another session.

    `answers` is the key of the wait. `wakes` is the session that gets an item, under the id `item` or an id that derives
    from the turn; `name` is what the item says has ended. `source` names the turn's usage in the turn that waits for it.
    If the item begins a turn, `carries` gives that turn its place in the tree.
    """

    json_fields: ClassVar[tuple[str, ...]] = ("carries",)

    answers: str | None = None
    wakes: str | None = None
    item: str = ""
    name: str = ""
    source: str = ""
    carries: dict[str, Any] = EMPTY_DICT

    @classmethod
    def of(cls, request: TurnRequest) -> Ends | None:
        """Return who learns of the end of a turn, if another turn began it."""
        said = request.overrides.get("ends")
        return None if said is None else msgspec.convert(dict(said), cls)


class Above(Value, kw_only=True):
    """A turn above another turn in its tree, and the call there that the lower turn works for.

    `is_shown`: its observers may see live what happens below it, because none of its plugins has to look first.
    """

    session_id: str
    turn_id: str
    call_id: str | None = None
    is_shown: bool = True


class Tree(JsonValue, kw_only=True):
    """The place of a turn in the tree of turns that began each other.

    `above` has the turns above it, the top first; `path` has the names from the top down to its own. The limits are those
    of the turn at the top. `allotted` is what the turn above lets it use, by the name of the plugin with the budget.
    """

    json_fields: ClassVar[tuple[str, ...]] = ("allotted",)

    above: tuple[Above, ...] = ()
    path: tuple[str, ...] = ()
    max_depth: int | None = None
    max_children: int | None = None
    allotted: dict[str, Any] = EMPTY_DICT

    @classmethod
    def of(cls, request: TurnRequest) -> Tree:
        """Return the place of a turn; a caller's own turn is at the top."""
        said = request.overrides.get("tree")
        return TOP if said is None else msgspec.convert(dict(said), cls)

    @property
    def depth(self) -> int:
        """How many turns are above it."""
        return len(self.above)


TOP = Tree()


class Child(Value, kw_only=True):
    """A child in the background: no turn waits for it. `ctx.spawn` returns one.

    Attributes:
        session_id: The child's session.
        name: Its name among the children of the session that began it.
    """

    session_id: str
    name: str


ChildState: TypeAlias = Literal["queued", "running", "parked", "idle"]
"""What a child does: its turn has not begun, runs, or waits; `idle`: it has no unfinished turn."""


class ChildView(Value, kw_only=True):
    """A session that another session began, as that session sees it.

    Attributes:
        session_id: The child's session.
        agent: The name of its agent.
        name: The name that it got when it began.
        kind: `child`, or another kind of session.
        depth: How far it is below the session whose children you asked for; direct children are at 1.
        parent: The session that began it.
        state: `queued`, `running`, `parked`, or `idle` if none of its turns is unfinished.
        turn_id: The unfinished turn; None if there is none.
        text: The last text of its last ended turn.
        outcome: How that turn ended; None if no turn has ended.
        usage: What its own turns used so far, without the usage of its children.
        waits: What its unfinished turn waits for.
    """

    session_id: str
    agent: str
    name: str = ""
    kind: SessionKind = "child"
    depth: int = 1
    parent: str | None = None
    state: ChildState = "idle"
    turn_id: str | None = None
    text: str = ""
    outcome: Outcome | None = None
    usage: tuple[UsageLine, ...] = ()
    waits: tuple[Wait, ...] = ()


class ChildEnd(Value, kw_only=True):
    """How a child ended: the answer to the turn that waits for it. `usage` has the whole child, as lines of a child."""

    outcome: Outcome
    text: str = ""
    usage: tuple[UsageLine, ...] = ()
    issues: tuple[events.Error, ...] = ()

    @classmethod
    def of(cls, answer: Json) -> ChildEnd | None:
        """Return the end that the answer to a `child` wait holds; None: the child could not begin."""
        if isinstance(answer, dict) and "outcome" in answer:
            return msgspec.convert(dict(answer), cls)
        return None

    @property
    def is_finished(self) -> bool:
        """Whether it ended with an answer."""
        return isinstance(self.outcome, _FINISHED)

    @property
    def value(self) -> Json:
        """Its value, or the model's text."""
        if isinstance(self.outcome, (FinishedValue, FinishedByTool)):
            return self.outcome.value
        return self.text

    @property
    def failure(self) -> str:
        """Why it ended without an answer, in words."""
        outcome = self.outcome
        if isinstance(outcome, HandedOff):
            return f"It was handed off to {outcome.target}."
        if isinstance(outcome, Stopped):
            return f"It stopped ({outcome.reason}). {outcome.detail}".rstrip()
        return ""


def as_answer(value: Value) -> dict[str, Any]:
    """Return a value as JSON, for a request or an answer."""
    found: dict[str, Any] = msgspec.to_builtins(value)
    return found


def as_child_usage(lines: Iterable[UsageLine], source: str) -> tuple[UsageLine, ...]:
    """Return what a turn used as the turn above counts it: as lines of a child, with the names on the way down."""
    named = []
    for line in lines:
        _, _, inner = line.source.partition(CHILD_SOURCE)
        where = f"{CHILD_SOURCE}{source}/{inner}" if inner else f"{CHILD_SOURCE}{source}"
        named.append(msgspec.structs.replace(line, source=where))
    return sum_usage(named)


def own_usage(lines: Iterable[UsageLine]) -> tuple[UsageLine, ...]:
    """Return what a turn used itself, without its children: their usage is in their own sessions."""
    return tuple([line for line in lines if not is_child_usage(line)])


def is_child_usage(line: UsageLine) -> bool:
    """Whether a child used this, and not the turn itself."""
    return line.source.startswith(CHILD_SOURCE)


def child_usage_told(wait: Wait, answer: Json, total: Usage) -> list[events.ChildUsage]:
    """Return the events about the usage of the child that gave this answer; `total` is the usage of all children so far."""
    named = wait.detail if isinstance(wait.detail, dict) else {}
    return [
        events.ChildUsage(
            session_id=str(named.get("session", "")),
            source=line.source,
            model=line.model,
            usage=line.usage,
            cumulative=total,
        )
        for line in usage_in_answer(wait, answer)
    ]


def usage_in_answer(wait: Wait, answer: Json) -> tuple[UsageLine, ...]:
    """Return the usage of the child that gave this answer to a wait."""
    end = ChildEnd.of(answer) if wait.kind == "child" else None
    return () if end is None else end.usage
