"""`windlass bench`: turns per second on this disk, with the demo model."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from windlass import Agent, Runtime, tool
from windlass.cli.disk import measure_syncs
from windlass.cli.json_lines import write_json
from windlass.cli.options import JsonOption
from windlass.cli.terminal import console, row, table
from windlass.errors import InvalidInput

_LONGEST = 10_000


@tool(effect="keyed")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def bench(
    *,
    turns: Annotated[int, Parameter(help="turns of each kind", show_default=True)] = 50,
    dir: Annotated[  # noqa: A002 - the flag's name
        str, Parameter(name="--dir", help="a folder on the disk to measure; nothing stays there")
    ] = ".",
    json: JsonOption = False,
) -> int:
    """Measure turns with the demo model: in memory, kept over a kill, kept over a power cut."""
    if not 1 <= turns <= _LONGEST:
        raise InvalidInput(f"turns: found {turns}, wanted 1 to {_LONGEST}", field="turns")
    folder = Path(dir)
    if not folder.is_dir():
        raise InvalidInput(f"dir: there is no folder {folder}", field="dir")
    try:
        rows = asyncio.run(_measure(folder.absolute(), turns))
        sync = measure_syncs(folder)
    except OSError as error:
        raise InvalidInput(f"dir: {folder}: {error.strerror}", field="dir") from None
    if json:
        write_json({"turns": turns, "sync_median_ms": sync.median_ms, "rows": rows})
        return 0
    listed = table("store", "turn", "per second", "median ms", "worst ms")
    for each in rows:
        cells = (each["per_second"], each["median_ms"], each["worst_ms"])
        row(listed, each["store"], each["turn"], *map(str, cells), styles=("cyan",))
    screen = console()
    screen.print(listed)
    screen.print(f"\none turn after the other; the disk keeps a block in {sync.median_ms:.2f} ms")
    return 0


async def _measure(folder: Path, turns: int) -> list[dict[str, Any]]:
    rows = []
    with tempfile.TemporaryDirectory(prefix="windlass-bench-", dir=folder) as made:
        for name, store, durability in (
            ("memory", "memory:", "power"),
            ("sqlite, process", f"sqlite:///{made}/p.db", "process"),
            ("sqlite, power", f"sqlite:///{made}/w.db", "power"),
        ):
            for turn, said in (("words", "hello"), ("one tool", 'add {"a": 1, "b": 2}')):
                taken = await _turns(store, durability, said, turns)  # type: ignore[arg-type]  # the table above
                rows.append(
                    {
                        "store": name,
                        "turn": turn,
                        "per_second": round(1000 * len(taken) / sum(taken)),
                        "median_ms": round(statistics.median(taken), 2),
                        "worst_ms": round(max(taken), 2),
                    }
                )
    return rows


async def _turns(
    store: str, durability: Literal["power", "process"], said: str, turns: int
) -> list[float]:
    """Return how long each turn took, in milliseconds; the first one is not counted."""
    now = asyncio.get_running_loop().time
    taken = []
    agent = Agent("bench", model="demo", tools=[add])
    async with Runtime(agent, store=store, durability=durability) as runtime:
        for number in range(turns + 1):
            begun = now()
            await runtime.session(f"s{number % 8}-{said[:3]}").run(said)
            taken.append((now() - begun) * 1000)
    return taken[1:]
