"""What people are asked, and what they say: a call with all that would run, a question with the answers to it.

Law 1. What a person decides on is shown whole. An argument is left out only if each of its lines is a line of the diff
    below it.
Law 2. What a person types means the answer that is shown for it, and one only.
Law 3. Text cannot draw what windlass draws: the counts in a diff say what its lines are, not how they look, and a row that
    goes on with a line or a question begins with a mark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import accumulate
from typing import Any, Final

from rich.cells import cell_len, chop_cells
from rich.text import Text as Line

from windlass.cli.arguments import read_json
from windlass.cli.terminal import count, exact, safe
from windlass.errors import ArgsInvalid
from windlass.kernel import canonical
from windlass.ports import Wait
from windlass.tools.arguments import check_against

_VALUE_WIDTH: Final = 60
_HUNK: Final = re.compile(r"@@ -\d{1,9}(?:,(\d{1,9}))? \+\d{1,9}(?:,(\d{1,9}))? @@")
_STYLES: Final = {"+": "green", "-": "red", "@": "cyan", "file": "bold"}
_YES_NO: Final = {"y": True, "yes": True, "n": False, "no": False}
_WANTED: Final = {"boolean": "yes or no", "integer": "a whole number", "number": "a number"}
TAKEN: Final = {
    "accepted": "the answer is recorded",
    "already": "another answer came first",
    "expired": "too late: the time to answer is over",
    "superseded": "too late: the turn has ended, or went on without this answer",
}
"""What became of an answer, in words."""
_CONTINUES: Final = "↪ "
"""How a row begins that continues the one above it. No line of a call, of a diff or of an answer begins so."""
_WORD: Final = re.compile(r"\S+\s*|\s+")


def wait_args(wait: Wait) -> Mapping[str, Any] | None:
    """Return the arguments of the call that a wait is about; None if it is about something else."""
    found = wait.detail.get("args") if isinstance(wait.detail, dict) else None
    return found if isinstance(found, dict) else None


def whole_call(wait: Wait, edit: Mapping[str, Any] | None = None) -> Line:
    """Return a call that a person decides on, whole: every argument in full, what the model left out, and its preview.

    Of other arguments than the model's there is no preview.
    """
    detail = wait.detail if isinstance(wait.detail, dict) else {}
    shown = exact(str(detail.get("tool", "call")), "bold")
    given = wait_args(wait) or {} if edit is None else edit
    left_out = detail.get("defaults") or {} if edit is None else {}
    found = detail.get("preview") if edit is None else None
    preview = found if isinstance(found, str) else ""
    for name, value in _in_order({**left_out, **given}, detail.get("order")):
        shown.append("\n  ")
        shown.append(exact(name, "dim"))
        shown.append(" = ", "dim")
        if isinstance(value, str) and _is_drawn(value, preview):
            n_lines = value.strip("\n").count("\n") + 1
            shown.append(f"{count(n_lines, 'line')}, all of them below", "dim")
        else:
            shown.append(exact(_laid_out(value, "  "), keep="\n"))
        if name not in given:
            shown.append("  (default)", "dim")
    return shown.append(_drawn(preview)) if preview else shown


def _in_order(values: Mapping[str, Any], order: object) -> list[tuple[str, Any]]:
    """Return arguments in the order in which the tool has them; waits of earlier releases do not know it."""
    places = {name: at for at, name in enumerate(order if isinstance(order, list) else ())}
    return sorted(values.items(), key=lambda item: places.get(item[0], len(places)))


def risk_of(wait: Wait) -> str:
    """Return what was said about the risk of a call, if it was more than `low`, which is what tools have by default."""
    risk = wait.detail.get("risk") if isinstance(wait.detail, dict) else None
    return safe(str(risk)) if risk not in (None, "low") else ""


def _laid_out(value: object, indent: str) -> str:
    """Return JSON to be read: a long value over several lines, a text with its line breaks."""
    deeper = indent + "  "
    if isinstance(value, str):
        lines = [canonical.encode(each).decode()[1:-1] for each in value.split("\n")]
        return '"' + f"\\n\n{deeper}".join(lines) + '"'
    short = canonical.encode(value).decode()
    if len(short) <= _VALUE_WIDTH or not isinstance(value, (dict, list)):
        return short
    if isinstance(value, list):
        items = [_laid_out(item, deeper) for item in value]
        opening, closing = "[", "]"
    else:
        names = [canonical.encode(name).decode() for name in value]
        rest = [_laid_out(item, deeper) for item in value.values()]
        items = [f"{name}: {item}" for name, item in zip(names, rest, strict=True)]
        opening, closing = "{", "}"
    body = f",\n{deeper}".join(items)
    return f"{opening}\n{deeper}{body}\n{indent}{closing}"


def folded(shown: Line, width: int, *, at_words: bool = False) -> Line:
    """Return rows of at most `width` cells: no blank is lost, and what continues a line cannot pass for one."""
    shown.expand_tabs(8)
    lines = shown.split("\n", allow_blank=True)
    return Line("\n").join(_in_rows(one, width, at_words=at_words) for one in lines)


def _in_rows(one: Line, width: int, *, at_words: bool) -> Line:
    if one.cell_len <= width:
        return one
    room = width - len(_CONTINUES)
    if at_words:
        rows = _by_words(one.plain, room)
    else:
        first = chop_cells(one.plain, width)[0]
        rows = [first, *chop_cells(one.plain[len(first) :], room)]
    ends = accumulate(map(len, rows[:-1]))
    between = Line.assemble((f"\n{_CONTINUES}", "dim"))  # a style of the whole would be that of all
    return between.join(one.divide(ends))


def _by_words(text: str, width: int) -> list[str]:
    """Return a text in rows that end behind a word; a word that is longer than a row is cut."""
    rows = [""]
    for word in _WORD.findall(text):
        for part in chop_cells(word, width):
            if rows[-1] and cell_len(rows[-1]) + cell_len(part) > width:
                rows.append("")
            rows[-1] += part
    return rows


# ---------------------------------------------------------------------- previews


def _drawn(preview: str) -> Line:
    """Return what a tool says of a call: the lines of a unified diff in their colours, others as they are."""
    shown = Line("\n")
    for kind, row in _rows(preview.removesuffix("\n")):
        shown.append("\n")
        shown.append(exact(row, _STYLES.get(kind, ""), keep="\t"))
    return shown


def _rows(preview: str) -> Iterator[tuple[str, str]]:
    """Yield each line with what it is in a unified diff: `+`, `-`, a blank, `@`, `file`, or nothing of that."""
    old = new = 0
    for row in preview.split("\n"):
        if (old > 0 or new > 0) and not row.startswith("\\"):
            kind = row[:1] if row[:1] in ("+", "-") else " "
            old, new = old - (kind != "+"), new - (kind != "-")
            yield kind, row
        elif found := _HUNK.match(row):
            old, new = (int(size or 1) for size in found.groups())
            yield "@", row
        else:
            yield "file" if row.startswith(("--- ", "+++ ")) else "", row


def _is_drawn(value: str, preview: str) -> bool:
    """Whether a text of several lines can be read in a diff, line by line: as what comes, or as what goes."""
    text, rows = value.strip("\n"), list(_rows(preview))
    if "\n" not in text:
        return False
    sides = ("\n".join(row[1:] for kind, row in rows if kind in (side, " ")) for side in "+-")
    return any(f"\n{text}\n" in f"\n{side}\n" for side in sides)


# ---------------------------------------------------------------------- questions


def whole_question(wait: Wait) -> Line:
    """Return a question with the answers that it offers, or with what kind of answer it wants."""
    first, *others = wait.title.strip().split("\n") if wait.title else ["an answer is wanted"]
    shown = exact(first, "bold")
    for row in others:
        shown.append(f"\n{_CONTINUES}", "dim")
        shown.append(exact(row, "bold"))
    choices = _choices(wait)
    numbers = _numbers(choices)
    for place, choice in enumerate(choices):
        shown.append(f"\n  {numbers[place] if numbers else '-'}  ", "cyan")
        shown.append(exact(_label(choice)))
    if not choices and (wanted := _wanted(_schema(wait))):
        shown.append("\n  ")
        shown.append(exact(wanted, "dim"))
    return shown


def answer_to(wait: Wait | None, said: str) -> object:
    """Return what a person typed as the value that a question asks for: text, yes or no, or JSON, as its schema takes it.

    One of the answers that it offers may be picked by its words, or by its number if it is shown with one.

    Raises:
        InvalidInput: the question wants JSON that is no text, and this is not JSON.
    """
    schema = None if wait is None or wait.kind != "question" else _schema(wait)
    if wait is None or schema is None:
        return said
    choices = _choices(wait)
    for choice in choices:
        if said == _label(choice):
            return choice
    numbers = _numbers(choices)
    if said in numbers:
        return choices[numbers.index(said)]
    if choices or not _wanted(schema):
        return said
    readings = list(_readings(said))
    fitting = [one for one in readings if _fits(one, schema)]
    if not fitting and _is_json(schema):
        return read_json("value", said)
    # If none fits, the first says best what is wrong with it: "-3" is no text, but a number that is too small.
    return (fitting or readings)[0]


def _readings(said: str) -> Iterator[object]:
    """Yield what was typed as JSON, as yes or no, and as text."""
    with suppress(ValueError):
        yield canonical.parse(said)
    if said.lower() in _YES_NO:
        yield _YES_NO[said.lower()]
    yield said


def _fits(value: Any, schema: Mapping[str, Any]) -> bool:  # noqa: ANN401 - JSON
    try:
        check_against(value, schema, "value")
    except ArgsInvalid:
        return False
    return True


def _schema(wait: Wait) -> Mapping[str, Any] | None:
    found = wait.detail.get("schema") if isinstance(wait.detail, dict) else None
    return found if isinstance(found, dict) else None


def _choices(wait: Wait) -> list[Any]:
    offered = (_schema(wait) or {}).get("enum")
    return offered if isinstance(offered, list) else []


def _numbers(choices: list[Any]) -> list[str]:
    """Return the numbers by which answers are picked; none if an answer reads like the number of another one."""
    numbers = [str(number) for number in range(1, len(choices) + 1)]
    others = set(numbers)
    labels = map(_label, choices)
    is_plain = all(
        label == number or label not in others
        for label, number in zip(labels, numbers, strict=True)
    )
    return numbers if is_plain else []


def _label(choice: object) -> str:
    return choice if isinstance(choice, str) else canonical.encode(choice).decode()


def _wanted(schema: Mapping[str, Any] | None) -> str:
    """Return what kind of answer a question wants; empty if it is text."""
    if schema is None or schema.get("type") == "string":
        return ""
    if _is_json(schema):
        return f"as JSON: {canonical.encode(schema).decode()}"
    return _WANTED[schema["type"]]


def _is_json(schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type")
    return not isinstance(kind, str) or (kind != "string" and kind not in _WANTED)
