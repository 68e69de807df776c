"""Rows of a turn, written by hand: entries, pages, waits, and the view that a store shows of them."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.journal import (
    AwaitEventCommand,
    CallDecided,
    CallPresented,
    CallReturned,
    CheckpointCommand,
    CheckpointGiven,
    Claimed,
    Entry,
    EnvironmentBuilt,
    EventAwaited,
    HistoryPage,
    JournalPage,
    ModelAnswered,
    ModelCallCommand,
    ModelHooksCommand,
    Recorded,
    ReplyHooked,
    RequestSpec,
    SyncEnvironmentCommand,
    ToolCallCommand,
    ToolHooksCommand,
    TurnStarted,
)
from windlass.kernel import (
    CheckpointDelivery,
    ConversationRecord,
    Json,
    Message,
    ModelFailure,
    ModelReply,
    Outcome,
    Text,
    ToolCall,
    ToolOutcome,
)
from windlass.kernel.messages import Role
from windlass.kernel.responses import Environment, Failure, InjectedMessage
from windlass.ports import CommitReceipt, TurnRequest, TurnView, Wait, WaitView
from windlass.ports.waits import AnswerStatus

# The digits are what `printf s/t | sha256sum` begins with.
PREFIX = "74f1b1e01f63c5f0"
ASKED = TurnRequest(input=(Text(text="Go."),))
SPEC = RequestSpec(model="m", messages="ab" * 32, message_count=1)


def said(text: str, id: str, role: Role = "user") -> Message:
    return Message(id=id, role=role, parts=(Text(text=text),))


def calls(*names: str, text: str = "") -> ModelReply:
    """Return a reply that calls tools: the first under the id `c0`, each with its number as `n`."""
    parts = tuple(
        ToolCall(call_id=f"c{at}", name=name, args={"n": at}) for at, name in enumerate(names)
    )
    return ModelReply(parts=(*((Text(text=text),) if text else ()), *parts))


# ---------------------------------------------------------------------- entries


def started(**more: Any) -> TurnStarted:
    return TurnStarted(agent="a", model="m", **more)


def reply(
    effect: int, result: ModelReply | ModelFailure | str = "Done.", *, streamed: bool = False
) -> Recorded:
    if isinstance(result, str):
        result = ModelReply(text=result)
    answered = ModelAnswered(result=result, text_streamed=streamed)
    return _recorded(f"model_call/{effect}", answered, ModelCallCommand(request=SPEC))


def looked(effect: int, result: ModelReply | None = None) -> Recorded:
    """Return what plugins made of a reply."""
    command = ModelHooksCommand(reply="ab")
    return _recorded(f"model_hooks/{effect}", ReplyHooked(reply=result), command)


def intent(effect: int, number: int = 0, *, name: str = "work", args: Json = None) -> Claimed:
    command = _call(number, name, args)
    key = f"s/t/1/0/tool_call/{effect}/{number}/intent"
    return Claimed(key=key, command=command, contract="once")


def result(
    effect: int,
    number: int = 0,
    value: Json = "ok",
    *,
    name: str = "work",
    args: Json = None,
    claimed: bool = False,
    **more: Any,
) -> Recorded:
    """Return what a call gave; `claimed`: its intent is in the journal."""
    took = more.pop("duration_ms", 0)
    returned = CallReturned(outcome=ToolOutcome(value=value, **more), duration_ms=took)
    command = None if claimed else _call(number, name, args)
    return _recorded(f"tool_call/{effect}/{number}/result", returned, command)


def decided(effect: int, number: int = 0, *, name: str = "work", **more: Any) -> Recorded:
    """Return what policy or a person decided on a call; the command is the call as the model asked for it."""
    where = f"tool_call/{effect}/{number}/decide"
    return _recorded(where, CallDecided(**more), _call(number, name, None))


def presented(effect: int, number: int = 0, **more: Any) -> Recorded:
    """Return what plugins made of a result."""
    command = ToolHooksCommand(call_id=f"c{number}", name="work", subject="ab")
    return _recorded(f"tool_hooks/{effect}/{number}/presented", CallPresented(**more), command)


def entered(
    effect: int, *texts: str, taken: tuple[str, ...] = (), kind: str = "after_work"
) -> Recorded:
    """Return what came in at a checkpoint."""
    messages = tuple(InjectedMessage(role="user", parts=(Text(text=one),)) for one in texts)
    given = CheckpointGiven(delivery=CheckpointDelivery(messages=messages), taken=taken)
    return _recorded(f"checkpoint/{effect}", given, CheckpointCommand(checkpoint=kind))  # type: ignore[arg-type]  # a kind


def built(effect: int, made: Environment | Failure | None = None) -> Recorded:
    command = SyncEnvironmentCommand()
    return _recorded(f"sync_environment/{effect}", EnvironmentBuilt(result=made), command)


def awaited(where: str, key: str, status: AnswerStatus = "answered", **more: Any) -> Recorded:
    """Return how a wait ended."""
    outcome = EventAwaited(status=status, **more)
    return _recorded(f"await_event/{where}", outcome, AwaitEventCommand(wait_key=key))


def _call(number: int, name: str, args: Json) -> ToolCallCommand:
    given = args if isinstance(args, dict) else {"n": number}
    return ToolCallCommand(call_id=f"c{number}", name=name, args=given)


def _recorded(where: str, outcome: Any, command: Any) -> Recorded:  # noqa: ANN401 - of any kind
    return Recorded(key=f"s/t/1/0/{where}", outcome=outcome, command=command)


# ---------------------------------------------------------------------- views


def page(*entries: Entry, written_in: int = JournalPage.FORMAT) -> JournalPage:
    return JournalPage(format=written_in, generation=1, entries=entries)


def wait(key: str, page: int, **more: Any) -> WaitView:
    """Return a wait that was opened behind so many pages."""
    more.setdefault("kind", "approval")
    return WaitView(wait=Wait(key=key, session_id="s", turn_id="t", **more), page=page)


def view(*pages: JournalPage, waits: tuple[WaitView, ...] = (), **more: Any) -> TurnView:
    """Return an unfinished turn."""
    shown = TurnView(
        session_id="s",
        turn_id="t",
        agent="a",
        state="running",
        request=ASKED,
        request_digest="ab",
        pages=pages,
        waits=waits,
    )
    return msgspec.structs.replace(shown, **more)


def ended(turn: TurnView, outcome: Outcome, *messages: Message, head: int = 1) -> TurnView:
    """Return a turn that has ended."""
    nodes = tuple(ConversationRecord(message=one) for one in messages)
    return msgspec.structs.replace(
        turn,
        state="done",
        outcome=outcome,
        receipt=CommitReceipt(session_id="s", turn_id="t", head=head, digest="ab"),
        page=HistoryPage(format=HistoryPage.FORMAT, turn_id="t", nodes=nodes, outcome=outcome),
    )
