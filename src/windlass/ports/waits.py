"""A wait: something durable that a turn waits for; the first answer stands."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal, TypeAlias

from windlass.errors import InvalidInput
from windlass.guards.text import check_text
from windlass.kernel.value import Json, JsonValue, Value, use_default

WaitKind: TypeAlias = Literal[
    "approval",
    "deferred",
    "signal",
    "timer",
    "mismatch",
    "unknown_outcome",
    "provider",
    "deps",
    "budget",
    "poison",
    "child",
    "question",
]
BY_ITSELF: frozenset[WaitKind] = frozenset({"child", "timer"})
"""The kinds of waits that need no person."""
AnswerStatus: TypeAlias = Literal["answered", "rejected", "expired", "superseded"]
ANSWERED: AnswerStatus = "answered"
WaitState: TypeAlias = Literal["open", "answered", "rejected", "expired", "superseded"]


class Wait(JsonValue, kw_only=True):
    """Something a turn waits for. Its key is a secret that only the store can make.

    Attributes:
        key: What answers it: `rt.approve(key)`, `rt.resolve(key, value)`. A secret of the store.
        kind: What it is for: `approval`, `deferred`, `provider`, `deps` and others.
        session_id: The session whose turn waits.
        turn_id: The turn that waits.
        call_id: The tool call that waits; None if the turn as a whole does.
        title: What is asked, in one line for people.
        detail: What is needed to decide, as JSON: for an approval the tool, its arguments and what the tool says the
            call would do (`preview`), for a question the tool and the `schema` of the answer, for a signal
            `{"signal": name}`.
        created_ms: When it was opened, in milliseconds since 1970, UTC.
        expires_ms: When it answers itself, in the same unit; None: never.
    """

    json_fields: ClassVar[tuple[str, ...]] = ("detail",)

    key: str
    kind: WaitKind
    session_id: str
    turn_id: str
    call_id: str | None = None
    title: str = ""
    detail: Json = None
    created_ms: int = 0
    expires_ms: int | None = None


class WaitAnswer(JsonValue, kw_only=True):
    """An answer; `rejected` says no or failed, `expired` that no answer came in time."""

    json_fields: ClassVar[tuple[str, ...]] = ("value",)

    status: AnswerStatus = ANSWERED
    value: Json = None
    by: str | None = None
    now_ms: int = 0

    def __post_init__(self) -> None:
        """Freeze the value; refuse a name that is not text."""
        super().__post_init__()
        use_default(self, "status", ANSWERED)
        if self.by is not None:
            check_text(self.by, field="WaitAnswer.by")


class WaitView(Value, kw_only=True):
    """A wait as it stands; `consumed`: the call that it allowed has begun.

    `page` is how many pages its turn's journal had with the unit that opened it: what is on those came before it.
    """

    wait: Wait
    state: WaitState = "open"
    answer: WaitAnswer | None = None
    consumed: bool = False
    page: int = 0


def has_children(waits: Iterable[WaitView]) -> bool:
    """Whether one of these waits, answered or not, is for a child."""
    return any(one.wait.kind == "child" for one in waits)


def waits_for_itself(waits: Iterable[WaitView]) -> bool:
    """Whether what is open of these waits is for children and times alone: something, and nothing that needs a person.

    A turn that waits so gets on by itself, and an item for now wakes it.
    """
    kinds = {one.wait.kind for one in waits if one.state == "open"}
    return bool(kinds) and kinds <= BY_ITSELF


def check_turn_in_session(session_id: str | None, turn_id: str | None) -> None:
    """Refuse to look for the waits of a turn in no session: turn ids are of their session."""
    if turn_id is not None and session_id is None:
        raise InvalidInput("turn_id: found no session_id with it", field="turn_id")


class WaitReceipt(Value, kw_only=True):
    """What became of an answer, and the one that stands."""

    status: Literal["accepted", "already", "expired", "superseded"]
    answer: WaitAnswer | None = None
