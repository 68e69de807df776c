"""A turn that a process left unfinished: what its journal recorded, and what was only shown."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from windlass.cli.opening import unfinished_turn
from windlass.cli.output import page_messages
from windlass.cli.talk.screen import FAILED, MARKS, Screen
from windlass.cli.terminal import call_line, count, message_text, one_line, result_line, text_of
from windlass.errors import UnknownSession
from windlass.journal import CallReturned, JournalRow, ModelAnswered, ToolCallCommand
from windlass.kernel import ModelReply
from windlass.kernel.messages import Message
from windlass.ports import SessionView, Store, TurnView

_FATES = {
    "once": "it is not run again; the model is told that the outcome is unknown",
    "keyed": "it is run again with the same key",
    "reconcile": "the tool is asked whether it acted",
}
_AGAIN = "it is run again"


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
        kept = [row for row in turn.journal().rows() if _is_kept(row)]
        screen.say("recorded:" if kept else "no text and no result is recorded yet", "dim")
        for row in kept:
            if isinstance(row.command, ToolCallCommand):
                _show_call(row, row.command, screen)
            else:
                screen.markdown(_reply_text(row))
        if self.is_elsewhere:
            screen.say("it runs in another process; this shows what that process records", "dim")
        elif turn.state == "running":
            screen.say(
                "↩ taken back: anything else it showed was not recorded; the model is asked again",
                "yellow",
            )


def _show_call(row: JournalRow, command: ToolCallCommand, screen: Screen) -> None:
    told = call_line(command.name, command.args)
    if isinstance(row.outcome, CallReturned):
        outcome = row.outcome.outcome
        told = one_line(f"{told}: {result_line(outcome)}", screen.width)
        screen.line(*MARKS.get(outcome.status, FAILED), told)
    else:
        contract = row.contract or "once"
        fate = _FATES.get(contract, _AGAIN)
        screen.line("?", "yellow", f"{told}: started, no result ({contract}: {fate})")


def _is_kept(row: JournalRow) -> bool:
    """Whether a row is about a call, or about a reply with text in it."""
    if isinstance(row.command, ToolCallCommand):
        return row.outcome is None or isinstance(row.outcome, CallReturned)
    return bool(_reply_text(row).strip())


def _reply_text(row: JournalRow) -> str:
    answered = row.outcome.result if isinstance(row.outcome, ModelAnswered) else None
    return answered.text if isinstance(answered, ModelReply) else ""


async def find_leftover(rows: Store, session_id: str) -> Leftover | None:
    """Return a session as it is before this process drives it; None if it is new."""
    try:
        session = await rows.load_session(session_id)
    except UnknownSession:
        return None
    turn, is_owned = await unfinished_turn(rows, session)
    is_elsewhere = is_owned and turn is not None and turn.state == "running"
    return Leftover(session=session, turn=turn, is_elsewhere=is_elsewhere)
