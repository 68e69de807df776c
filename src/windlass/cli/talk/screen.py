"""What a conversation shows: facts stay; previews are in a live region that is redrawn.

Law 1. Text outside of the live region was recorded, or is marked as taken back once it turns out not to be.
Law 2. Nothing that a model or a tool wrote reaches the terminal with control characters in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.markdown import Markdown
from rich.padding import Padding
from rich.segment import Segment
from rich.text import Text

from windlass.api.usage_report import UsageReport
from windlass.cli import terminal
from windlass.cli.opening import Found
from windlass.cli.output import page_messages
from windlass.folds import TurnFold, frame_in, place_of, write_cursor
from windlass.journal import JournalRow, ToolCallCommand
from windlass.kernel import CompletedToolCall, Finished, Message, events
from windlass.kernel.messages import COMMENTARY
from windlass.kernel.value import snake_case
from windlass.ports import SessionView, TurnView

MARKS = {"ok": ("✓", "green"), "denied": ("✗", "yellow"), "unknown": ("?", "yellow")}
FAILED = ("✗", "red")
"""How a call ended: a sign, and its color."""
_MARGIN = 4
_FENCES = ("```", "~~~")
_FATES = {
    "once": "it is not run again; the model is told that the outcome is unknown",
    "keyed": "it is run again with the same key",
    "reconcile": "the tool is asked whether it acted",
}
_AGAIN = "it is run again"


class _Tail:
    """The last lines that fit: a region taller than the screen cannot be redrawn."""

    def __init__(self, shown: Any, height: int) -> None:  # noqa: ANN401 - anything rich can render
        self._shown = shown
        self._height = height

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = console.render_lines(self._shown, options, pad=False)
        for line in lines[-self._height :]:
            yield from line
            yield Segment.line()


class Screen:
    """Shows the events of one conversation on a console."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._replies: dict[str, Streamed] = {}
        self._thoughts = ""
        # What the model said on the way to its answer, until the answer begins.
        self._commentary = ""
        self._was_aside = False
        self._last_text = ""

    # ------------------------------------------------------------------ events

    def show(self, event: events.Event, *, more: bool = False) -> None:
        """Show an event with the method of its name; with `more` waiting, do not redraw the region yet."""
        show = getattr(self, f"_{snake_case(type(event).__name__)}", None)
        if show is not None:
            show(event)
        if not more:
            self._draw()

    def _model_started(self, _event: events.ModelStarted) -> None:
        self._thoughts, self._commentary, self._was_aside = "", "", False
        self._open()

    def _text_delta(self, event: events.TextDelta) -> None:
        if event.phase == COMMENTARY:
            self._thoughts = self._commentary = self._commentary + terminal.safe(event.text)
            self._open()
            return
        reply = self._replies.setdefault(event.correlation_id, Streamed())
        block = reply.add(event.text)
        if self._commentary and self._console.is_terminal:
            self.aside(self._commentary)
            self._thoughts, self._commentary, self._was_aside = "", "", True
        self._open()
        if block.strip() and self._console.is_terminal:
            # Printing above the region redraws it, so take the settled block out first.
            self._draw()
            self.markdown(block)

    def _reasoning_delta(self, event: events.ReasoningDelta) -> None:
        self._thoughts = (self._thoughts + terminal.safe(event.text))[-2_000:]
        self._open()

    def _model_finished(self, event: events.ModelFinished) -> None:
        reply = self._replies.pop(event.correlation_id, Streamed())
        whole = event.text
        rest = reply.finish(whole) if self._console.is_terminal else whole
        self.close()
        for ran in event.server_tools:
            self.line("→", "cyan", terminal.one_line(ran, self.width))
        if rest is None:
            self._take_back()
            rest = whole
        if event.commentary and not self._was_aside:
            self.aside(event.commentary)
        if rest.strip():
            self.markdown(rest)
        for cited in terminal.citation_lines(event.citations):
            self.say(cited, "dim")
        self._last_text = event.text

    def _tool_started(self, event: events.ToolStarted) -> None:
        self.line("→", "cyan", terminal.call_line(event.name, event.args, self.width))

    def _tool_progress(self, event: events.ToolProgress) -> None:
        self.line("·", "dim", f"{event.name}: {terminal.progress_line(event.data, self.width)}")

    def _tool_finished(self, event: events.ToolFinished) -> None:
        mark, style = MARKS.get(event.outcome.status, FAILED)
        status = "" if event.outcome.status == "ok" else f" {event.outcome.status}:"
        said = terminal.result_line(event.outcome, self.width - len(event.name) - 12)
        self.line(mark, style, f"{event.name}{status} {said} ({event.duration_ms} ms)")

    def _retracted(self, event: events.Retracted) -> None:
        for gone in event.correlation_ids:
            reply = self._replies.pop(gone, None)
            if reply is not None and (reply.was_shown or self._was_aside):
                self.close()
                self._take_back()
        self._thoughts, self._commentary, self._was_aside = "", "", False

    def _retrying(self, event: events.Retrying) -> None:
        reason = terminal.one_line(event.reason)
        self.line("…", "yellow", f"retrying (attempt {event.attempt}): {reason}")

    def _error(self, event: events.Error) -> None:
        if event.code not in ("attached", "not_durable"):
            self.line("!", "yellow", terminal.one_line(event.message, 200))

    def _turn_ended(self, event: events.TurnEnded) -> None:
        self.close()
        outcome = event.outcome
        if isinstance(outcome, Finished):
            # The turn ran in another process, or its text was missed.
            if outcome.text != self._last_text and outcome.text.strip():
                self.markdown(outcome.text)
        elif terminal.is_finished(outcome):
            self.print(Text(terminal.answer_text(outcome, "")))
        else:
            self.line("■", "yellow", terminal.ending(outcome))
        self._last_text = ""
        self._replies.clear()

    def _take_back(self) -> None:
        self.line("↩", "yellow", "taken back: the text above was not recorded")

    # ------------------------------------------------------------------ the live region

    def _open(self) -> None:
        if self._live is None and self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
            # A process killed now could not show the cursor again.
            self._console.show_cursor(show=True)

    def _draw(self) -> None:
        if self._live is None:
            return
        rest = "".join(reply.rest for reply in self._replies.values())
        shown: Any = Text("…", style="dim")
        if rest.strip():
            shown = _markdown(terminal.safe(rest))
        elif self._thoughts:
            shown = Text(self._thoughts, style="dim italic")
        self._live.update(_Tail(shown, max(self._console.height - _MARGIN, 3)), refresh=True)

    def close(self) -> None:
        """End the live region, so that the terminal can be used to ask something."""
        live, self._live = self._live, None
        if live is not None:
            live.update(Text(""))
            live.stop()

    # ------------------------------------------------------------------ what stays

    def say(self, text: str, style: str = "") -> None:
        """Show a line of the program itself."""
        self.print(terminal.line((text, style)))

    def line(self, mark: str, style: str, text: str) -> None:
        """Show a line about something that happens, such as a tool call."""
        text_style = "dim" if style == "dim" else ""
        self.print(terminal.line((f"  {mark} ", style), (text, text_style)))

    def markdown(self, text: str) -> None:
        """Show Markdown."""
        self.print(_markdown(terminal.safe(text)))

    def aside(self, text: str) -> None:
        """Show what is not part of the answer: what the model said on the way to it."""
        self.print(Text(terminal.safe(text).strip(), style="dim italic"))

    def used(self, usage: UsageReport) -> None:
        """Show what a turn used."""
        if not usage.calls:
            return
        cost = "" if usage.cost is None else f" · {terminal.dollars(usage.cost)}"
        calls = terminal.count(usage.calls, "call")
        self.say(f"{calls} · {usage.prompt_tokens} in · {usage.output_tokens} out{cost}", "dim")

    def print(self, shown: Any) -> None:  # noqa: ANN401 - anything rich can render
        """Show something that rich can render."""
        self._console.print(shown)

    @property
    def width(self) -> int:
        """The longest that a line about something may be."""
        return max(self._console.width - 8, 40)


def _markdown(text: str) -> Padding:
    # Links are shown with their address: users see what they click.
    return Padding(Markdown(text.strip("\n"), hyperlinks=False), (0, 0, 0, 0))


# ---------------------------------------------------------------------- a reply as it grows


class Streamed:
    """The text of one model call as it grows: a settled part that stays, and the rest.

    A blank line settles the block before it, unless the line is inside a code block.
    """

    def __init__(self) -> None:
        self._text = ""
        self._settled = 0

    @property
    def rest(self) -> str:
        """The text that is not settled yet."""
        return self._text[self._settled :]

    @property
    def was_shown(self) -> bool:
        """Whether some of it is on the screen for good."""
        return self._settled > 0

    def add(self, text: str) -> str:
        """Add text; return the blocks that it settled."""
        self._text += text
        end = _settled_length(self.rest)
        block = self.rest[:end]
        self._settled += end
        return block

    def finish(self, whole: str) -> str | None:
        """Compare with the recorded reply; return what is left to show, None if the two differ."""
        if not whole.startswith(self._text[: self._settled]):
            return None
        return whole[self._settled :]


def _settled_length(text: str) -> int:
    """Return where the last settled block of a text ends."""
    end = place = 0
    fence = ""
    for line in text.splitlines(keepends=True):
        place += len(line)
        start = line.lstrip()[:3]
        if fence:
            fence = "" if start == fence else fence
        elif start in _FENCES:
            fence = start
        elif line.endswith("\n") and not line.strip():
            end = place
    return end


# ---------------------------------------------------------------------- what another process left


def show_leftover(found: Found, screen: Screen) -> str | None:
    """Show the last messages, what the journal has of the unfinished turn, and what is taken back.

    Return the cursor behind the facts that were shown; None without any.
    """
    session, turn = found.session, found.turn
    n_turns = session.head
    told = terminal.count(n_turns, "finished turn") if n_turns else "no finished turn yet"
    screen.say(f"session {session.session_id}: {told}", "dim")
    for message in _last_words(session):
        who = "you" if message.role == "user" else message.role
        screen.say(f"{who}: {terminal.one_line(terminal.message_text(message), 200)}", "dim")
    if turn is None:
        return None
    fold = TurnFold.of(turn, frame_in(session.pages))
    _show_turn(turn, fold, screen)
    if turn.state == "running" and found.is_owned:
        screen.say("it runs in another process; this shows what that process records", "dim")
    elif turn.state == "running":
        lost = "anything else it showed was not recorded; the model is asked again"
        screen.say(f"↩ taken back: {lost}", "yellow")
    if not fold.facts:
        return None
    place = place_of(fold.facts[-1], turn.session_id, turn.turn_id)
    return write_cursor(turn.session_id, "", place)


def _last_words(session: SessionView) -> Sequence[Message]:
    said = [each for page in session.pages[-1:] for each in page_messages(page)]
    spoken = [each for each in said if each.role in ("user", "assistant")]
    return [each for each in spoken if terminal.text_of(each.parts).strip()][-2:]


def _show_turn(turn: TurnView, fold: TurnFold, screen: Screen) -> None:
    """Show what is recorded of a turn; what plugins were to look at, once they have."""
    asked = terminal.text_of(fold.input or ())
    screen.say(f"unfinished turn {turn.turn_id}: {terminal.one_line(asked, 200)}", "bold")
    kept = [fact for fact in fold.facts if _is_kept(fact)]
    begun = [row for row in turn.journal().rows() if _has_begun(row)]
    screen.say("recorded:" if kept or begun else "no reply is recorded yet", "dim")
    for fact in kept:
        if isinstance(fact, events.ToolFinished):
            _show_result(fact, screen)
        elif fact.text.strip():
            screen.markdown(fact.text)
    for call in fold.returned:
        _show_result(call, screen)
    for row in begun:
        _show_call(row, screen)
    _show_asked(kept, {call.call_id for call in fold.returned}, begun, screen)


def _is_kept(fact: events.Event) -> TypeGuard[events.ModelFinished | events.ToolFinished]:
    """Whether a fact is a reply or a result."""
    return isinstance(fact, (events.ModelFinished, events.ToolFinished))


def _show_asked(
    kept: Sequence[events.ModelFinished | events.ToolFinished],
    returned: set[str],
    begun: Sequence[JournalRow],
    screen: Screen,
) -> None:
    """Show the calls of the last reply that have not started: an approval may be open."""
    known = returned | {fact.call_id for fact in kept if isinstance(fact, events.ToolFinished)}
    known |= {row.command.call_id for row in begun if isinstance(row.command, ToolCallCommand)}
    replies = [fact for fact in kept if isinstance(fact, events.ModelFinished)]
    for call in replies[-1].calls if replies else ():
        if call.call_id not in known:
            told = terminal.call_line(call.name, call.args or {}, screen.width)
            screen.line("→", "cyan", told)


def _has_begun(row: JournalRow) -> bool:
    """Whether a row is about a call that was started and has no result."""
    return isinstance(row.command, ToolCallCommand) and row.outcome is None


def _show_result(call: events.ToolFinished | CompletedToolCall, screen: Screen) -> None:
    told = terminal.call_line(call.name, call.args)
    told = terminal.one_line(f"{told}: {terminal.result_line(call.outcome)}", screen.width)
    screen.line(*MARKS.get(call.outcome.status, FAILED), told)


def _show_call(row: JournalRow, screen: Screen) -> None:
    assert isinstance(row.command, ToolCallCommand)  # noqa: S101 - it has begun
    told = terminal.call_line(row.command.name, row.command.args)
    contract = row.contract or "once"
    fate = _FATES.get(contract, _AGAIN)
    screen.line("?", "yellow", f"{told}: started, no result ({contract}: {fate})")
