"""What people read: values of windlass in words, a console for output and one for notes, tables.

Law. Text that a model or a tool wrote goes through `safe` or `exact` before it reaches a terminal: what would steer the
    terminal or mislead a reader is written out.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from itertools import groupby
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text as Line

from windlass.cli.keys import clean
from windlass.guards.text import is_hidden, visible
from windlass.kernel import Json, canonical, outcomes
from windlass.kernel.messages import (
    Attachment,
    Citation,
    Message,
    Reasoning,
    ServerToolCall,
    Text,
    ToolCall,
    ToolResult,
)
from windlass.kernel.tool_call import ToolOutcome, as_text
from windlass.ports import Wait
from windlass.runtime.system_clock import SystemClock

# Kept in prose: what lines and emoji are made of, and what many scripts need between letters.
_PROSE: Final = "\n\t\u200c\u200d\ufe0e\ufe0f"
_SPACES: Final = str.maketrans(dict.fromkeys("\xa0\u2002\u2003\u2007\u2009\u200a\u202f\u3000", " "))
_HIDDEN_STYLE: Final = "reverse"


def safe(text: str) -> str:
    """Return prose with hidden characters written out, and without the value of any key in the environment."""
    return visible(_prose(text), keep=_PROSE)


def _prose(text: str) -> str:
    return clean(text).replace("\r\n", "\n").translate(_SPACES)


def line(*parts: tuple[str, str]) -> Line:
    """Return a line of parts, each with its style; the text of each is made safe, and what was hidden stands out."""
    return Line.assemble(*(_painted(_prose(text), style, _PROSE) for text, style in parts))


def exact(text: str, style: str = "", *, keep: str = "") -> Line:
    """Return text that a person decides by: every character that cannot be seen is written out and stands out."""
    return _painted(clean(text), style, keep)


def _painted(text: str, style: str, keep: str) -> Line:
    painted = Line()
    for hidden, chars in groupby(text, key=lambda char: char not in keep and is_hidden(char)):
        piece = "".join(chars)
        painted.append(
            visible(piece) if hidden else piece, f"{style} {_HIDDEN_STYLE}" if hidden else style
        )
    return painted


def count(number: int, noun: str) -> str:
    """Return a number with its noun, such as `1 turn` or `3 turns`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def short_key(key: str) -> str:
    """Return the beginning of a wait's key, long enough to answer it: 48 bits."""
    return safe(key)[:14]


def one_line(text: str, width: int = 72) -> str:
    """Return `text` on one line of at most `width` characters."""
    words = " ".join(safe(text).split())
    return words if len(words) <= width else f"{words[: width - 1].rstrip()}…"


def as_json(value: object) -> str:
    """Return a JSON value as text for people."""
    return visible(clean(canonical.encode(value).decode()))


def dollars(cost: Decimal) -> str:
    """Return what something cost, such as `$0.0123`; `$0` if it was free."""
    return f"${cost:.4f}" if cost else "$0"


def wait_line(wait: Wait, flags: str = "") -> str:
    """Return what a turn waits for, with what to type next where there is something."""
    return f"{wait_words(wait)}  {next_step(wait, flags)}".rstrip()


def wait_words(wait: Wait) -> str:
    """Return what a turn waits for."""
    title = wait_title(wait) if wait.kind == "timer" else wait.title or "for an answer"
    return f"waits ({wait.kind}): {title}"


def next_step(wait: Wait, flags: str = "") -> str:
    """Return what to type about a wait, or its key; empty if nothing but its time answers it.

    `flags` are typed behind it: without those of the store, the command looks into another one.
    """
    match wait.kind:
        case "timer":
            return ""
        case "approval":
            return f"windlass approve {short_key(wait.key)}{flags}"
        case "question":
            return f"windlass answer {short_key(wait.key)} ANSWER{flags}"
        case "child":
            return f"windlass children {shlex.quote(wait.session_id)}{flags}"
        case "deferred" | "unknown_outcome":
            return f"windlass answer {short_key(wait.key)} RESULT{flags}"
        case _:
            return f"key {short_key(wait.key)}"


def wait_branch(wait: Wait, flags: str = "") -> Line:
    """Return an open wait for a tree: what to type next has a line of its own, so that it can be copied."""
    step = next_step(wait, flags)
    return line((wait_words(wait), "yellow"), (step and f"\n{step}", "bold"))


def child_label(name: str, agent: str, state: str, session_id: str) -> Line:
    """Return a session that another one began, for a tree: what it is called first, its long id last."""
    of = f" ({agent})" if name and name != agent else ""
    return line(
        (name or agent, "bold cyan"),
        (of, "cyan"),
        (f"  {state}", "default"),
        (f"\n{session_id}", "dim"),
    )


def wait_title(wait: Wait) -> str:
    """Return what a wait is about, and of a timer how long it still takes."""
    title = wait.title or wait.kind
    if wait.kind != "timer" or wait.expires_ms is None:
        return title
    return f"{title}, in {age(SystemClock().now_ms(), wait.expires_ms)}"


def call_line(name: str, args: Mapping[str, Any], width: int = 72) -> str:
    """Return a call as code."""
    given = ", ".join(f"{key}={as_json(value)}" for key, value in args.items())
    return one_line(f"{name}({given})", width)


def result_line(outcome: ToolOutcome, width: int = 72) -> str:
    """Return the result of a call."""
    value = "" if outcome.value is None else as_text(outcome.value)
    if not value:
        value = text_of(outcome.content)
    said, _, last = value.rstrip().rpartition("\n")
    # A last line in brackets says how it ended, such as `[exit code 1, 0.4 s]`.
    if said and last.startswith("[") and last.endswith("]"):
        value = f"{last} {said}"
    return one_line(value, width) or f"({outcome.status})"


def progress_line(data: Json, width: int = 72) -> str:
    """Return how far a call is; of the output of a command, the newest line."""
    output = data.get("output") if isinstance(data, dict) else None
    lines = output.split("\n") if isinstance(output, str) else []
    newest = next((line for line in reversed(lines) if line.strip()), None)
    return one_line(as_text(data) if newest is None else newest, width)


def ending(outcome: outcomes.Outcome | None) -> str:
    """Return how a turn ended, in a few words."""
    match outcome:
        case None:
            return "unfinished"
        case outcomes.Finished():
            return "finished"
        case outcomes.FinishedValue():
            return "finished with a value"
        case outcomes.FinishedByTool(tool=tool):
            return f"finished by {safe(tool)}"
        case outcomes.HandedOff(target=target):
            return f"handed off to {safe(target)}"
        case outcomes.Stopped(reason=reason, detail=detail):
            return f"stopped: {reason}{f' ({one_line(detail, 200)})' if detail else ''}"


def is_finished(outcome: outcomes.Outcome | None) -> bool:
    """Whether a turn ended with an answer."""
    return isinstance(outcome, (outcomes.Finished, outcomes.FinishedValue, outcomes.FinishedByTool))


def answer_text(outcome: outcomes.Outcome | None, text: str) -> str:
    """Return the answer of a turn: its text, or its value as JSON."""
    if isinstance(outcome, (outcomes.FinishedValue, outcomes.FinishedByTool)):
        return as_json(outcome.value)
    return safe(text)


def text_of(parts: Iterable[object]) -> str:
    """Return the text among the parts of a message."""
    return " ".join(part.text for part in parts if isinstance(part, Text))


def speaker(message: Message) -> str:
    """Return who says a message: its role, or `tool` if it brings results."""
    is_result = any(isinstance(part, ToolResult) for part in message.parts)
    return "tool" if is_result else message.role


def message_text(message: Message) -> str:
    """Return a message's parts in reading order."""
    return "\n".join(filter(None, map(_part_text, message.parts)))


def _part_text(part: object) -> str:  # noqa: PLR0911 - a table
    match part:
        case Text(text=text, phase="commentary"):
            return f"(says on the way) {safe(text)}"
        case Text(text=text, citations=citations):
            return "\n".join([safe(text), *citation_lines(citations)])
        case ServerToolCall(name=name, text=text):
            return f"→ {safe(name)} (run by the provider) {one_line(text, 200)}".rstrip()
        case Reasoning(text=text):
            return f"(thinks) {one_line(text, 200)}" if text else ""
        case ToolCall(name=name, args=args):
            return f"→ {call_line(name, args or {}, 200)}"
        case ToolResult(name=name, status=status, content=content):
            return f"← {safe(name)} {status}: {one_line(text_of(content), 200)}"
        case Attachment(name=name, media_type=media_type):
            return f"[attachment {safe(name or media_type)}]"
        case _:
            return ""


def citation_lines(citations: Iterable[Citation]) -> list[str]:
    """Return where an answer comes from, one line for each page."""
    pages = {(each.title, each.url): None for each in citations}
    return [
        f"[{at}] {one_line(' '.join(filter(None, page)), 200)}"
        for at, page in enumerate(pages, start=1)
    ]


def moment(ms: int) -> str:
    """Return a time in this machine's time zone."""
    return datetime.fromtimestamp(ms / 1000, tz=UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def age(ms: int, now_ms: int) -> str:
    """Return how long ago something was."""
    seconds = max(0, (now_ms - ms) // 1000)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def size(n_bytes: int) -> str:
    """Return a number of bytes with its unit."""
    amount, unit = float(n_bytes), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{n_bytes} B" if unit == "B" else f"{amount:.1f} {unit}"


# ---------------------------------------------------------------------- the terminal


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Raise it: `main` turns it into an exit code."""
        raise BrokenPipeError


def console() -> Console:
    """Return the console for output."""
    return _Console(file=sys.stdout, highlight=False, markup=False, emoji=False, soft_wrap=False)


def notes() -> Console:
    """Return the console for notes beside the output: standard error."""
    return _Console(file=sys.stderr, highlight=False, markup=False, emoji=False)


def note(text: str) -> None:
    """Write a note; it is not wrapped, so that a key in it can be copied."""
    notes().print(line((text, "dim")), soft_wrap=True)


def print_table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str | Line]],
    styles: Sequence[str] = (),
    *,
    empty: str = "",
) -> None:
    """Print a table; its cells are text, not markup. Without rows, print `empty` if that is given."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for head in heads:
        made.add_column(head, overflow="fold")
    painted = (*styles, *[""] * len(heads))
    for row in rows:
        cells = zip(row, painted, strict=False)
        made.add_row(*(line((cell, to)) if isinstance(cell, str) else cell for cell, to in cells))
    console().print(made if made.rows or not empty else empty)
