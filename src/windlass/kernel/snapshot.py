"""A machine as a plain value: everything that decides what it does next, besides its config."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from windlass.errors import FormatUnsupported, InvalidInput
from windlass.kernel.chain import Chain, as_chain
from windlass.kernel.driver import check_count
from windlass.kernel.effects import Told
from windlass.kernel.history import check_history
from windlass.kernel.iteration_limit import NO_GRACE, LimitState
from windlass.kernel.messages import Message, Record, TurnCause
from windlass.kernel.model_call import NO_USAGE, Usage
from windlass.kernel.responses import Environment
from windlass.kernel.states import Preparing, State
from windlass.kernel.value import Value, use_default


class TurnSnapshot(Value, kw_only=True):
    """Made by `TurnMachine.snapshot()`, in constant time: histories are shared, not copied.

    The effect that waits for an answer is not in the queue; it follows from the state.
    """

    FORMAT: ClassVar[int] = 1

    # No default: a stored payload always names its format.
    format: int
    session_id: str
    turn_id: str
    state: State
    messages: Chain[Message]
    records: Chain[Record]
    queue: tuple[Told, ...] = ()
    causes: tuple[TurnCause, ...] = ()
    iteration: int = 0
    iteration_offset: int = 0
    synced_iteration: int | None = None
    next_effect: int = 1
    next_message: int = 0
    next_event: int = 0
    told_records: int = 0
    usage: Usage = NO_USAGE
    limit: LimitState = NO_GRACE
    environment: Environment | None = None

    def __post_init__(self) -> None:
        """Take the defaults for what they are."""
        if self.usage is not NO_USAGE:
            use_default(self, "usage", NO_USAGE)
        if self.limit is not NO_GRACE:
            use_default(self, "limit", NO_GRACE)

    @classmethod
    def of_new_turn(
        cls,
        session_id: str,
        turn_id: str,
        messages: Iterable[Message],
        records: Iterable[Record],
        iteration_offset: int,
    ) -> TurnSnapshot:
        """Return a turn of which nothing has happened yet.

        Raises:
            InvalidInput: the messages are not a history, or a field is not a sequence or a count.
        """
        check_count(iteration_offset, field="iteration_offset")
        history: Chain[Message] = as_chain(messages, field="messages")
        check_history(history)
        earlier: Chain[Record] = as_chain(records, field="records")
        return cls(
            format=cls.FORMAT,
            session_id=session_id,
            turn_id=turn_id,
            state=Preparing(),
            messages=history,
            records=earlier,
            told_records=len(earlier),
            iteration=iteration_offset,
            iteration_offset=iteration_offset,
        )

    def check(self, session_id: str, turn_id: str) -> None:
        """Refuse a snapshot of another turn, or one whose numbers cannot be.

        Raises:
            FormatUnsupported: written by a release with another format.
            InvalidInput: naming the field.
        """
        if self.format != self.FORMAT:
            raise FormatUnsupported(
                f"snapshot.format: found {self.format}, this release knows {self.FORMAT}",
                field="snapshot.format",
                found=self.format,
                wanted=self.FORMAT,
            )
        rules = {
            "session_id": self.session_id == session_id,
            "turn_id": self.turn_id == turn_id,
            "iteration": self.iteration >= self.iteration_offset >= 0,
            "next_effect": self.next_effect > getattr(self.state, "effect_id", 0) >= 0,
            "next_message": self.next_message >= 0,
            "next_event": self.next_event >= 0,
            "told_records": 0 <= self.told_records <= len(self.records),
        }
        for field, holds in rules.items():
            if not holds:
                raise InvalidInput(
                    f"snapshot.{field}: found a value that does not fit this turn",
                    field=f"snapshot.{field}",
                    wanted="a snapshot of this turn, as it was taken",
                )
