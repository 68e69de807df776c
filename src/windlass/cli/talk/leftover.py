"""A turn that a process left unfinished: what its journal recorded, and what was only shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from windlass import journal
from windlass.cli.output import page_messages
from windlass.cli.talk.screen import FAILED, MARKS, Screen
from windlass.cli.terminal import call_line, count, message_text, one_line, result_line
from windlass.errors import UnknownSession
from windlass.kernel import ModelReply, ToolOutcome
from windlass.kernel.messages import Message, Text
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
        spoken = [each for each in said if each.role in ("user", "assistant") and _has_text(each)]
        return spoken[-2:]

    def _show_turn(self, turn: TurnView, screen: Screen) -> None:
        asked = " ".join(
            part.text
            for part in (turn.request.input if turn.request is not None else ())
            if isinstance(part, Text)
        )
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
    for page in turn.pages:
        for entry in page.entries:
            if isinstance(entry, journal.TurnStarted):
                continue
            key = journal.call_key(entry.key)
            if isinstance(entry, journal.Claimed) and isinstance(
                entry.command, journal.ToolCallCommand
            ):
                told = call_line(entry.command.name, entry.command.args)
                calls[key] = _Call(told=told, contract=entry.contract or "once")
            outcome = entry.outcome if isinstance(entry, journal.Recorded) else None
            if isinstance(outcome, journal.ModelAnswered) and isinstance(
                outcome.result, ModelReply
            ):
                yield from calls.values()
                calls.clear()
                if outcome.result.text.strip():
                    yield outcome.result.text
            elif isinstance(outcome, journal.CallReturned) and isinstance(entry, journal.Recorded):
                command = entry.command
                if isinstance(command, journal.ToolCallCommand) and key not in calls:
                    calls[key] = _Call(told=call_line(command.name, command.args))
                if key in calls:
                    calls[key].outcome = outcome.outcome
    yield from calls.values()


def _has_text(message: Message) -> bool:
    return any(isinstance(part, Text) and part.text.strip() for part in message.parts)


async def find_leftover(store: Store, session_id: str, *, now_ms: int) -> Leftover | None:
    """Return a session as it is before this process drives it; None if it is new."""
    try:
        session = await store.load_session(session_id)
    except UnknownSession:
        return None
    turn_id = session.active or next(iter(session.queued), None)
    turn = None if turn_id is None else await store.load_turn(session_id, turn_id)
    is_elsewhere = (
        turn is not None
        and turn.state == "running"
        and turn.owner is not None
        and await store.is_present(turn.owner, now_ms=now_ms)
    )
    return Leftover(session=session, turn=turn, is_elsewhere=is_elsewhere)
