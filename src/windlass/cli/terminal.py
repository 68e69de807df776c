"""The terminal: a console for what was asked for, and one for notes beside it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from windlass.cli.wording import safe


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to whoever started the command: its exit code says so."""
        raise BrokenPipeError


def console() -> Console:
    """Return the console for what was asked for."""
    return _Console(file=sys.stdout, highlight=False, markup=False, emoji=False, soft_wrap=False)


def notes() -> Console:
    """Return the console for what is told beside it."""
    return _Console(file=sys.stderr, highlight=False, markup=False, emoji=False)


def note(text: str) -> None:
    """Tell something that is not what was asked for; a key in it stays in one piece."""
    notes().print(Text(safe(text), style="dim"), soft_wrap=True)


def table(*heads: str) -> Table:
    """Return an empty table in the style of the command."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for head in heads:
        made.add_column(head, overflow="fold")
    return made


def row(into: Table, *cells: str, styles: Sequence[str] = ()) -> None:
    """Add a row; whatever is in its cells is text, not markup."""
    painted = (*styles, *[""] * len(cells))
    into.add_row(
        *(Text(safe(cell), style=style) for cell, style in zip(cells, painted, strict=False))
    )
