"""A turn that a process left unfinished: what its journal recorded, and what was only shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from windlass.cli.opening import unfinished_turn
from windlass.cli.output import page_messages
from windlass.cli.talk.screen import FAILED, MARKS, Screen
from windlass.cli.terminal import call_line, count, message_text, one_line, result_line, text_of
from windlass.errors import UnknownSession
from windlass.journal import (
    CallReturned,
    Claimed,
    ModelAnswered,
    Recorded,
    ToolCallCommand,
    call_key,
)
from windlass.kernel import ModelReply, ToolOutcome
from windlass.kernel.messages import Message
from windlass.ports import SessionView, Store, TurnView

_FATES = {
    "once": "it is not run again; the model is told that the outcome is unknown",
    "keyed": "it is run again with the same key",
    "reconcile": "the tool is asked whether it acted",
}
_AGAIN = "it is run again"


class _Call(msgspec.Struct, kw_only=True):
    """A tool call in the journal."""

    told: str
    contract: str = "once"
    outcome: ToolOutcome | None = None


class Leftover(msgspec.Struct, frozen=True, kw_only=True):
    """A session as it was found: the last messages, and its unfinished turn."""

    session: SessionView
    turn: TurnView | None = None
    is_elsewhere: bool = False

    def show(self, screen: Screen) -> None:
        """Show the last messages, what the journal has of the turn, and what is taken back."""
        turns = count(self.session.head, "turn")
        screen.say(f"session {self.session.session_id}: {turns} so far", "dim")
        for message in self._last_words():
            who = "you" if message.role == "user" else message.role
            screen.say(f"{who}: {one_line(message_text(message), 200)}", "dim")
        if self.turn is not None:
            self._show_turn(self.turn, screen)

    def _last_words(self) -> Sequence[Message]:
        said = [each for page in self.session.pages[-1:] for each in page_messages(page)]
        spoken = [each for each in said if each.role in ("user", "assistant")]
        return [each for each in spoken if text_of(each.parts).strip()][-2:]

    def _show_turn(self, turn: TurnView, screen: Screen) -> None:
        asked = text_of(turn.request.input) if turn.request is not None else ""
        screen.say(f"unfinished turn {turn.turn_id}: {one_line(asked, 200)}", "bold")
        kept = list(_kept(turn))
        screen.say("recorded:" if kept else "no text and no result is recorded yet", "dim")
        for step in kept:
            if isinstance(step, str):
                screen.markdown(step)
            else:
                _show_call(step, screen)
        if self.is_elsewhere:
            screen.say("it runs in another process; this shows what that process records", "dim")
        elif turn.state == "running":
            screen.say(
                "↩ taken back: anything else it showed was not recorded; the model is asked again",
                "yellow",
            )


def _show_call(call: _Call, screen: Screen) -> None:
    if call.outcome is not None:
        told = one_line(f"{call.told}: {result_line(call.outcome)}", screen.width)
        screen.line(*MARKS.get(call.outcome.status, FAILED), told)
    else:
        fate = _FATES.get(call.contract, _AGAIN)
        screen.line("?", "yellow", f"{call.told}: started, no result ({call.contract}: {fate})")


def _kept(turn: TurnView) -> Iterator[str | _Call]:
    """Yield the replies and calls in the journal, in order."""
    calls: dict[str, _Call] = {}
    for entry in (entry for page in turn.pages for entry in page.entries):
        if not isinstance(entry, Claimed | Recorded):
            continue
        key, command = call_key(entry.key), entry.command
        outcome = entry.outcome if isinstance(entry, Recorded) else None
        if isinstance(command, ToolCallCommand):
            told = call_line(command.name, command.args)
            if isinstance(entry, Claimed):
                calls[key] = _Call(told=told, contract=entry.contract or "once")
            elif isinstance(outcome, CallReturned):
                calls.setdefault(key, _Call(told=told))
        if isinstance(outcome, ModelAnswered) and isinstance(outcome.result, ModelReply):
            yield from calls.values()
            calls.clear()
            if outcome.result.text.strip():
                yield outcome.result.text
        elif isinstance(outcome, CallReturned) and key in calls:
            calls[key].outcome = outcome.outcome
    yield from calls.values()


async def find_leftover(rows: Store, session_id: str) -> Leftover | None:
    """Return a session as it is before this process drives it; None if it is new."""
    try:
        session = await rows.load_session(session_id)
    except UnknownSession:
        return None
    turn, is_owned = await unfinished_turn(rows, session)
    is_elsewhere = is_owned and turn is not None and turn.state == "running"
    return Leftover(session=session, turn=turn, is_elsewhere=is_elsewhere)
