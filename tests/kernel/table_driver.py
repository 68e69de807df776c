"""A driver that reads what to do from a table, as a pure function of what it sees.

Tables are drawn by Hypothesis: any mixture of actions, in any order, also such as lead nowhere.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TypeAlias

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from windlass.kernel import (
    Action,
    Append,
    CodeResult,
    CompletedToolCall,
    ConversationRecord,
    DriverRecord,
    DriverView,
    EmitEvent,
    Failure,
    Finish,
    Finished,
    FinishedValue,
    Json,
    Message,
    ModelReply,
    NextIteration,
    PendingToolCall,
    PluginEvent,
    ScheduleFinal,
    StartCheckpoint,
    StartCode,
    StartModel,
    StartTools,
    Stopped,
    Text,
    TextDelta,
    WaitingModel,
)
from windlass.kernel.outcomes import Outcome

Move: TypeAlias = tuple[str, int]
Table: TypeAlias = tuple[tuple[Move, ...], ...]

_OUTCOMES: tuple[Outcome, ...] = (
    Finished(text="bye"),
    FinishedValue(value={"n": [1]}),
    Stopped(reason="refused", detail="no"),
)
_ASIDE = ("emit", "emit_whole", "say", "remember", "next", "final")
_START = ("model", "model", "tools", "code", "checkpoint", "checkpoint_then")


def tables() -> SearchStrategy[Table]:
    """Up to six batches. Most start something, some end the turn, some do neither, few do both."""
    aside = st.tuples(st.sampled_from(_ASIDE), st.integers(0, 2))
    start = st.tuples(st.sampled_from(_START), st.integers(0, 2))
    end = st.tuples(st.just("finish"), st.integers(0, 2))
    some = st.lists(aside, max_size=2)

    both: SearchStrategy[list[Move]] = st.lists(start | end, max_size=2)

    def batch(die: int) -> SearchStrategy[tuple[Move, ...]]:
        one = start if die < 7 else end
        middle = one.map(lambda move: [move]) if die < 9 else both
        return st.builds(lambda *moves: tuple(itertools.chain(*moves)), some, middle, some)

    return st.lists(st.integers(0, 9).flatmap(batch), min_size=1, max_size=6).map(tuple)


class TableDriver:
    """Chooses a batch by the iteration, by what was recorded so far and by its own state."""

    handles = frozenset({"output_limit", "content_filter"})

    def __init__(self, table: Table) -> None:
        self._table = table

    def prepare(self, view: DriverView) -> list[Action]:
        return self._batch(view, 0)

    def on_model(
        self, view: DriverView, waiting: WaitingModel, reply: ModelReply, text_streamed: bool
    ) -> list[Action]:
        return self._batch(view, 1 + len(reply.parts) + _number(waiting.driver_state))

    def on_tools(self, view: DriverView, completed: Sequence[CompletedToolCall]) -> list[Action]:
        return self._batch(view, 2 + sum(call.outcome.status == "ok" for call in completed))

    def on_code(
        self, view: DriverView, driver_state: Json, result: CodeResult | Failure
    ) -> list[Action]:
        return self._batch(view, 3 + _number(driver_state) + isinstance(result, Failure))

    def close(
        self,
        view: DriverView,
        calls: Sequence[PendingToolCall],
        completed: Sequence[CompletedToolCall],
    ) -> list[Action]:
        left = [
            call.call_id for call in calls if call.call_id not in [c.call_id for c in completed]
        ]
        return [Append(records=(DriverRecord(data={"left": left}),)), *self._batch(view, 4)]

    def _batch(self, view: DriverView, salt: int) -> list[Action]:
        place = view.iteration + 3 * len(view.records) + 5 * len(view.messages) + salt
        moves = self._table[place % len(self._table)]
        return [_action(view, kind, n, at) for at, (kind, n) in enumerate(moves)]


def _number(driver_state: Json) -> int:
    return int(driver_state["n"]) if driver_state is not None else 0


def _action(view: DriverView, kind: str, n: int, at: int) -> Action:
    if kind in _START or kind == "finish":
        return _start(view, kind, n)
    aside: dict[str, Action] = {
        "emit": EmitEvent(event=PluginEvent(plugin="p", name="n", data={"n": n})),
        "emit_whole": EmitEvent(event=TextDelta(id=f"e{n}", correlation_id="mine", text="x")),
        "say": Append(records=(ConversationRecord(message=_message(view, at)),) * (n > 0)),
        "remember": Append(records=(DriverRecord(data={"n": n, "at": [view.iteration]}),)),
        "next": NextIteration(),
        "final": ScheduleFinal(message=_message(view, at)),
    }
    return aside[kind]


def _start(view: DriverView, kind: str, n: int) -> Action:
    state = None if n == 0 else {"n": n}
    match kind:
        case "model":
            return StartModel(request=view.request(use_tools=n != 1), driver_state=state)
        case "tools":
            calls = [f"{view.iteration}.{len(view.records)}.{at}" for at in range(n)]
            return StartTools(
                calls=tuple(PendingToolCall(call_id=at, name="add", args={"n": n}) for at in calls)
            )
        case "code":
            return StartCode(language="python", code=f"print({n})", driver_state=state)
        case "checkpoint":
            return StartCheckpoint(kind="before_completion" if n else "after_work")
        case "checkpoint_then":
            outcome = _OUTCOMES[n]
            return StartCheckpoint(kind="after_work" if n else "before_completion", then=outcome)
        case _:
            return Finish(outcome=_OUTCOMES[n])


def _message(view: DriverView, at: int) -> Message:
    message_id = view.message_id(f"table.{len(view.records)}.{at}")
    return Message(id=message_id, role="assistant", parts=(Text(text=f"words {at}"),))
