"""The state diagram of a turn, drawn from the table that the machine itself obeys.

`windlass.kernel.TRANSITIONS` is the source; docs/architecture/turn.md shows it twice, as a picture
and as a table, between two markers. Nothing between the markers is written by hand.

Usage: python scripts/diagrams.py [--check] [--page FILE]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from windlass.kernel import TRANSITIONS

Table: TypeAlias = Mapping[str, Mapping[str, Sequence[str]]]

PAGE = Path("docs/architecture/turn.md")
BEGIN = "<!-- drawn by scripts/diagrams.py: begin -->"
END = "<!-- drawn by scripts/diagrams.py: end -->"


def draw_picture(table: Table) -> str:
    """Return the table as a Mermaid state diagram; edges between the same two states are one."""
    lines = ["```mermaid", "stateDiagram-v2"]
    lines += [f"    [*] --> {state}" for state in list(table)[:1]]
    for state, row in table.items():
        inputs: dict[str, list[str]] = {}
        for given, following in row.items():
            for other in following:
                inputs.setdefault(other, []).append(given)
        lines += [f"    {state} --> {other}: {', '.join(given)}" for other, given in inputs.items()]
    lines += [f"    {state} --> [*]" for state, row in table.items() if not row]
    return "\n".join([*lines, "```"])


def draw_table(table: Table) -> str:
    """Return the table as one: a state and an input to a line, and what may follow."""
    return "\n".join(["| state | input | next |", "|---|---|---|", *_rows(table)])


def _rows(table: Table) -> Iterator[str]:
    for state, row in table.items():
        if not row:
            yield f"| `{state}` | any | stays |"
        for given, following in row.items():
            yield f"| `{state}` | `{given}` | {', '.join(f'`{other}`' for other in following)} |"


def redraw(page: str, table: Table) -> str:
    """Return the page with its drawing made anew.

    Raises:
        ValueError: the page does not have each marker once, in order.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end or BEGIN in rest or END in before + after:
        raise ValueError(f"wanted once each, in this order: {BEGIN} and {END}")
    drawing = f"{draw_picture(table)}\n\n{draw_table(table)}"
    return f"{before}{begin}\n\n{drawing}\n\n{end}{after}"


def main(argv: Sequence[str] | None = None, *, table: Table = TRANSITIONS) -> int:
    """Draw the page, or check that it is current; 1 if it is not or cannot be drawn."""
    parser = argparse.ArgumentParser(description="Draw the state diagram of a turn.")
    parser.add_argument("--check", action="store_true", help="change nothing; 1 if not current")
    parser.add_argument(
        "--page", type=Path, default=PAGE, metavar="FILE", help=f"instead of {PAGE}"
    )
    options = parser.parse_args(argv)
    page: Path = options.page
    try:
        found = page.read_text(encoding="utf-8")
        wanted = redraw(found, table)
    except (OSError, ValueError) as error:
        print(f"{page}: {error}", file=sys.stderr)
        return 1
    if found == wanted:
        print(f"{page}: current")
        return 0
    if options.check:
        message = "the diagram is not that of TRANSITIONS; python scripts/diagrams.py draws it"
        print(f"{page}: {message}", file=sys.stderr)
        return 1
    page.write_text(wanted, encoding="utf-8")
    print(f"{page}: drawn")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
