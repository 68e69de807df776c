"""What became of a text, line by line: for the person who is asked, and counted for the model.

Law. The work is bounded: a large change is shown as removed and added, without a search for what stayed.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Final, TypeAlias

from windlass.toolkit.files.applying import end_of
from windlass.toolkit.files.patch import NOWHERE

Opcode: TypeAlias = tuple[str, int, int, int, int]

_CONTEXT: Final = 3
_MAX_COMPARED: Final = 2_000


def opcodes(before: Sequence[str], after: Sequence[str]) -> list[Opcode]:
    """Return how lines became other lines, as `difflib` has it, within bounds."""
    most = min(len(before), len(after))
    head = next((at for at in range(most) if before[at] != after[at]), most)
    tail = 0
    while tail < most - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    codes: list[Opcode] = [("equal", 0, head, 0, head)] if head else []
    if max(len(old), len(new)) > _MAX_COMPARED:
        codes.append(("replace", head, head + len(old), head, head + len(new)))
    elif old or new:
        for tag, i1, i2, j1, j2 in SequenceMatcher(None, old, new).get_opcodes():
            codes.append((tag, i1 + head, i2 + head, j1 + head, j2 + head))
    if tail:
        codes.append(
            ("equal", len(before) - tail, len(before), len(after) - tail, len(after)),
        )
    return codes


def stat_of(before: str, after: str) -> tuple[int, int]:
    """Return how many lines were added, and how many removed."""
    added = removed = 0
    for tag, i1, i2, j1, j2 in opcodes(_split(before), _split(after)):
        if tag != "equal":
            added, removed = added + j2 - j1, removed + i2 - i1
    return added, removed


def diff_of(path: str, before: str | None, after: str | None) -> str:
    """Return a unified diff; None is a file that is not there.

    In a file whose lines end with CRLF, the ends are not shown; of those that change, words below the diff tell.
    """
    raw = old, new = _split(before or ""), _split(after or "")
    hides_ends = end_of(before or "") == end_of(after or before or "") == "\r\n"
    if hides_ends:
        old, new = _with_lf(old), _with_lf(new)
    codes = opcodes(old, new)
    matcher = SequenceMatcher(None, "", "")
    matcher.opcodes = codes  # type: ignore[attr-defined]  # computed within bounds; the class only groups it
    shown = [
        f"--- {NOWHERE if before is None else f'a/{path}'}",
        f"+++ {NOWHERE if after is None else f'b/{path}'}",
    ]
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        first, last = group[0], group[-1]
        spans = _span(first[1], last[2]), _span(first[3], last[4])
        shown.append(f"@@ -{spans[0]} +{spans[1]} @@")
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                shown += [_told(" ", line) for line in old[i1:i2]]
                continue
            shown += [_told("-", line) for line in old[i1:i2]]
            shown += [_told("+", line) for line in new[j1:j2]]
    return "\n".join([*shown, *(_changed_ends(codes, *raw) if hides_ends else ())]) + "\n"


def _changed_ends(codes: Sequence[Opcode], old: Sequence[str], new: Sequence[str]) -> list[str]:
    """Say how many lines end otherwise than before, where nothing else shows it."""
    to_lf = to_crlf = 0
    for tag, i1, i2, j1, j2 in codes:
        if tag == "equal":
            for before, after in zip(old[i1:i2], new[j1:j2], strict=True):
                to_lf += len(after) < len(before)
                to_crlf += len(after) > len(before)
        else:
            to_lf += max(0, _n_lf(new[j1:j2]) - _n_lf(old[i1:i2]))
    told = (("LF now, not CRLF", to_lf), ("CRLF now, not LF", to_crlf))
    return [f"(Lines that end with {what}: {n_lines:,}.)" for what, n_lines in told if n_lines]


def _n_lf(lines: Sequence[str]) -> int:
    return sum(line.endswith("\n") and not line.endswith("\r\n") for line in lines)


def _with_lf(lines: Sequence[str]) -> list[str]:
    return [f"{line[:-2]}\n" if line.endswith("\r\n") else line for line in lines]


def _split(text: str) -> list[str]:
    lines = text.split("\n")
    last = lines.pop()
    return [f"{line}\n" for line in lines] + ([last] if last else [])


def _told(sign: str, line: str) -> str:
    if line.endswith("\n"):
        return sign + line[:-1]
    return f"{sign}{line}\n\\ No newline at end of file"


def _span(start: int, end: int) -> str:
    n_lines = end - start
    return f"{start + 1 if n_lines else start},{n_lines}"
