"""What a plugin's hook may answer, beyond a changed value. None always means: no change.

None of these is stored. What the runtime makes of them is recorded where the hook ran.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from windlass.kernel import InjectedMessage, Json, ModelRequest, TurnCause, Usage
from windlass.kernel.outcomes import StopReason
from windlass.ports.policy import Ask, Deny

Said: TypeAlias = str | InjectedMessage
"""A message that a plugin adds: text in the role of the user, or a message of any role."""


class Refuse(msgspec.Struct, frozen=True):
    """`on_input`: the input is not taken. It does not enter the history, and the turn ends."""

    reason: str = ""


class Abort(msgspec.Struct, frozen=True):
    """`before_turn`: the turn ends before the model is asked. The input stays in the history."""

    reason: str = ""


class Proceed(msgspec.Struct, frozen=True):
    """`before_tool`: no objection."""


class ReplaceArgs(msgspec.Struct, frozen=True):
    """`before_tool`: the call runs with these arguments instead; earlier hooks see it once more."""

    args: Mapping[str, Any]


class ShortCircuit(msgspec.Struct, frozen=True):
    """`before_tool`: the call does not run; this is its result (a `ToolOutcome`, or any value)."""

    result: object = None


class Send(msgspec.Struct, frozen=True, kw_only=True):
    """`before_model`: send this request; `reserve` is written down as spent until the reply says what was."""

    request: ModelRequest | None = None
    reserve: Usage | None = None


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """`before_model`: a person decides first. The turn parks on a wait of kind `budget`.

    When it is answered the hook runs again and finds the answer in `turn.answers` under `key`; when it is
    rejected or runs out the turn ends with `Stopped("limit")`.
    """

    key: str
    title: str
    detail: Json = None


class Withhold(msgspec.Struct, frozen=True):
    """`after_model`: nothing of the reply is kept, shown or run. The model is told why, and the turn goes on.

    What the reply used counts, and so does the iteration.
    """

    feedback: str = ""


class Stop(msgspec.Struct, frozen=True):
    """End the turn here, with this reason; without one it follows from the hook."""

    detail: str = ""
    reason: StopReason | None = None


class Retry(msgspec.Struct, frozen=True):
    """`on_error`: continue, with a prompt for the model.

    After a tool's error the prompt is added to what the model is told of it. After a failed model call the call
    is made once more, `after_s` seconds later, by another `model` if one is named; the prompt is sent once.
    """

    prompt: str = ""
    after_s: float = 0.0
    model: str | None = None


class Continue(msgspec.Struct, frozen=True):
    """`on_error`: continue as if there were no plugin."""


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """`at_checkpoint`: what enters the turn. `transient` is seen in this turn and never stored."""

    messages: Sequence[Said] = ()
    transient: Sequence[Said] = ()
    causes: Sequence[TurnCause] = ()


class Finale(msgspec.Struct, frozen=True, kw_only=True):
    """`after_turn`: what follows the turn. Each message begins a turn of its own.

    `compact` asks for a new frame first: True, or options for the compaction.
    """

    messages: Sequence[Said] = ()
    issues: Sequence[str] = ()
    compact: bool | Mapping[str, Json] = False


ToolDirective: TypeAlias = Proceed | ReplaceArgs | ShortCircuit | Deny | Ask
ErrorDirective: TypeAlias = Stop | Retry | Continue
