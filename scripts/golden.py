"""Write golden bytes and digests for values that have none yet; never change the others.

An entry that no longer fits its value is reported and left alone: its bytes are what journals out
there hold, so the code is wrong, or the format has to get a new number.

Usage: python -m scripts.golden
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

import msgspec

from windlass.kernel import Value, canonical

FOLDER = Path("tests/kernel/golden")


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One golden value: its canonical bytes, which are UTF-8, and its digest."""

    bytes: str
    digest: str


Entries: TypeAlias = dict[str, Entry]


def entry_of(value: Value) -> Entry:
    """Return what the encoder makes of a value today."""
    return Entry(bytes=canonical.encode(value).decode(), digest=canonical.digest(value))


def read(path: Path) -> Entries:
    """Return the entries of a file; none if there is no such file."""
    return msgspec.json.decode(path.read_bytes(), type=Entries) if path.exists() else {}


def add_new(path: Path, values: Mapping[str, Value]) -> list[str]:
    """Append entries for values that have none, and return their names."""
    entries = read(path)
    new = {name: entry_of(value) for name, value in values.items() if name not in entries}
    if new:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(entries | new)) + b"\n")
    return list(new)


def changed(path: Path, values: Mapping[str, Value]) -> list[str]:
    """Return the names of entries that are not what the encoder makes today."""
    entries = read(path)
    return [name for name, entry in entries.items() if entry != _today(values.get(name))]


def _today(value: Value | None) -> Entry | None:
    return None if value is None else entry_of(value)


def report(kind: str, names: Iterable[str]) -> None:
    """Print a line for each name."""
    for name in names:
        print(f"{kind}: {name}")


def main(golden: Mapping[str, Mapping[str, Value]], folder: Path = FOLDER) -> int:
    """Add what is missing; 1 if anything that was there does not fit any more."""
    wrong = []
    for file_name, values in golden.items():
        path = folder / f"{file_name}.json"
        report("new", add_new(path, values))
        wrong += changed(path, values)
    report("changed, and left as it was", wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    from tests.journal.golden_journal import GOLDEN as JOURNAL
    from tests.kernel.golden_snapshots import GOLDEN as KERNEL
    from tests.ports.golden_ports import FOLDER as PORTS_FOLDER
    from tests.ports.golden_ports import GOLDEN as PORTS

    raise SystemExit(
        main(KERNEL) | main(JOURNAL, Path("tests/journal/golden")) | main(PORTS, PORTS_FOLDER)
    )
