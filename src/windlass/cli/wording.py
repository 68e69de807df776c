"""Values of windlass in words for a terminal. What a model or a tool wrote is made harmless first."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from windlass.cli.keys import clean
from windlass.guards.text import clean_text
from windlass.kernel import canonical
from windlass.kernel.messages import Attachment, Message, Reasoning, Text, ToolCall, ToolResult
from windlass.kernel.outcomes import (
    Finished,
    FinishedByTool,
    FinishedValue,
    HandedOff,
    Outcome,
    Stopped,
)
from windlass.kernel.tool_call import ToolOutcome, as_text


def safe(text: str) -> str:
    """Return `text` without anything that would steer a terminal, and without any key of this environment."""
    shown = "".join(char for char in clean_text(text) if char.isprintable() or char in "\n\t")
    return clean(shown)


def count(number: int, noun: str) -> str:
    """Return a number of things as people say it."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def short_key(key: str) -> str:
    """Return as much of a wait's key as answers it: 48 bits of it, on one line."""
    return safe(key)[:14]


def one_line(text: str, width: int = 72) -> str:
    """Return `text` on one line, cut where it is too long."""
    words = " ".join(safe(text).split())
    return words if len(words) <= width else f"{words[: width - 1].rstrip()}…"


def as_json(value: object) -> str:
    """Return a JSON value as text for people."""
    return safe(canonical.encode(value).decode())


def call_line(name: str, args: Mapping[str, Any], width: int = 72) -> str:
    """Return a call as people write one."""
    given = ", ".join(f"{key}={as_json(value)}" for key, value in args.items())
    return one_line(f"{name}({given})", width)


def result_line(outcome: ToolOutcome, width: int = 72) -> str:
    """Return what a call came to."""
    value = "" if outcome.value is None else as_text(outcome.value)
    if not value:
        value = " ".join(part.text for part in outcome.content if isinstance(part, Text))
    return one_line(value, width) or f"({outcome.status})"


def ending(outcome: Outcome | None) -> str:
    """Return how a turn ended, in a few words."""
    match outcome:
        case None:
            return "unfinished"
        case Finished():
            return "finished"
        case FinishedValue():
            return "finished with a value"
        case FinishedByTool(tool=tool):
            return f"finished by {safe(tool)}"
        case HandedOff(target=target):
            return f"handed off to {safe(target)}"
        case Stopped(reason=reason, detail=detail):
            return f"stopped: {reason}{f' ({one_line(detail, 200)})' if detail else ''}"


def is_finished(outcome: Outcome | None) -> bool:
    """Whether a turn ended with an answer."""
    return isinstance(outcome, (Finished, FinishedValue, FinishedByTool))


def answer_text(outcome: Outcome | None, text: str) -> str:
    """Return what a turn has to say: its text, or its value as JSON."""
    if isinstance(outcome, (FinishedValue, FinishedByTool)):
        return as_json(outcome.value)
    return safe(text)


def message_text(message: Message) -> str:
    """Return a message's parts in reading order."""
    return "\n".join(filter(None, map(_part_text, message.parts)))


def _part_text(part: object) -> str:
    match part:
        case Text(text=text):
            return safe(text)
        case Reasoning(text=text):
            return f"(thinks) {one_line(text, 200)}" if text else ""
        case ToolCall(name=name, args=args):
            return f"→ {call_line(name, args or {}, 200)}"
        case ToolResult(name=name, status=status, content=content):
            said = " ".join(each.text for each in content if isinstance(each, Text))
            return f"← {safe(name)} {status}: {one_line(said, 200)}"
        case Attachment(name=name, media_type=media_type):
            return f"[attachment {safe(name or media_type)}]"
        case _:
            return ""


def moment(ms: int) -> str:
    """Return a moment in this machine's time zone."""
    return datetime.fromtimestamp(ms / 1000, tz=UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def age(ms: int, now_ms: int) -> str:
    """Return how long ago something was."""
    seconds = max(0, (now_ms - ms) // 1000)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def size(n_bytes: int) -> str:
    """Return a number of bytes as people say it."""
    amount = float(n_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024 or unit == "GiB":
            return f"{n_bytes} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    raise AssertionError
