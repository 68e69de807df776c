"""An approval, asked for in the conversation with the arguments shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec
from rich.panel import Panel
from rich.text import Text

from windlass.cli.talk.screen import Screen
from windlass.cli.wording import as_json, safe, short_key
from windlass.errors import WindlassError
from windlass.kernel import canonical
from windlass.ports import Wait

ReadLine = Callable[[str, str], str]
_CHOICES = "[y]es  [n]o  [e]dit  [s]ession > "


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a person decided; `later` leaves the question open."""

    kind: Literal["yes", "no", "later"]
    edit: dict[str, Any] | None = None
    remember: Literal["once", "session"] = "once"
    reason: str = ""


def ask(screen: Screen, wait: Wait, read_line: ReadLine) -> Answer:
    """Put a question to whoever sits at the terminal."""
    screen.print(_panel(wait))
    while True:
        try:
            word, _, rest = read_line(_CHOICES, "").strip().partition(" ")
            answer = _answer(word.lower(), rest.strip(), wait, read_line)
        except (EOFError, KeyboardInterrupt):
            return Answer(kind="later")
        except WindlassError as error:
            screen.say(f"  {error}", "yellow")
            continue
        if answer is not None:
            return answer
        screen.say(
            "  y allows it · n REASON does not · e edits the arguments first · s allows it for"
        )
        screen.say("  this session · Ctrl-D leaves the question open")


def _answer(word: str, rest: str, wait: Wait, read_line: ReadLine) -> Answer | None:
    if word in ("y", "yes"):
        return Answer(kind="yes")
    if word in ("n", "no"):
        return Answer(kind="no", reason=rest)
    if word in ("s", "session"):
        return Answer(kind="yes", remember="session")
    if word in ("e", "edit"):
        return Answer(kind="yes", edit=_edited(wait, read_line))
    return None


def _edited(wait: Wait, read_line: ReadLine) -> dict[str, Any]:
    text = read_line("arguments > ", as_json(_args(wait)))
    found = canonical.parse(text)
    if not isinstance(found, dict):
        raise WindlassError("wanted a JSON object with all the arguments")
    return found


def _args(wait: Wait) -> Mapping[str, Any]:
    detail = wait.detail
    found = detail.get("args") if isinstance(detail, dict) else None
    return found if isinstance(found, dict) else {}


def _panel(wait: Wait) -> Panel:
    detail = wait.detail if isinstance(wait.detail, dict) else {}
    shown = Text()
    shown.append(safe(str(detail.get("tool", "call"))), style="bold")
    for name, value in _args(wait).items():
        shown.append(f"\n  {safe(name)} = ", style="dim")
        shown.append(as_json(value))
    risk = f" · risk {safe(str(detail['risk']))}" if detail.get("risk") else ""
    title = Text(safe(wait.title or "May this run?"), style="bold yellow")
    return Panel(
        shown,
        title=title,
        title_align="left",
        subtitle=Text(f"key {short_key(wait.key)}…{risk}", style="dim"),
        subtitle_align="left",
        border_style="yellow",
    )
