"""Figures as a table for people and as JSON for programs."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench.samples import Figure

_HEAD = f"{'':<47} {'median':>10} {'10 % to 90 %':>16} {'bar':>10}"
_RULE = "-" * 92


def machine_line() -> str:
    """Say where this was measured."""
    return (
        f"windlass bench, {platform.python_implementation()} {platform.python_version()}, "
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    )


def table(groups: Sequence[Sequence[Figure]]) -> str:
    """Return the figures as a table, one group under the other."""
    lines = [machine_line(), "", _HEAD, _RULE]
    for group in groups:
        lines += [_line(each) for each in group]
        lines.append(_RULE)
    every = [each for group in groups for each in group]
    held = [each for each in every if each.bar is not None]
    missed = [each for each in held if not each.passes]
    lines.append(f"{len(held) - len(missed)} of {len(held)} bars held")
    lines.append("Times are of this machine, now; ratios are of pairs measured in turn.")
    return "\n".join(lines)


def _line(each: Figure) -> str:
    spread = f"{_number(each.low)} to {_number(each.high)}"
    sign = ">=" if each.at_least else "<="
    bar = "" if each.bar is None else f"{sign} {_number(each.bar)} {each.unit}"
    verdict = {True: "held", False: "MISSED", None: ""}[each.passes]
    median = f"{_number(each.median)} {each.unit}"
    return f"{each.name:<47} {median:>10} {spread:>16} {bar:>10} {verdict}".rstrip()


def _number(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def write_json(path: Path, groups: Sequence[Sequence[Figure]]) -> None:
    """Write everything that the table shows, unrounded."""
    report = {
        "python": sys.version,
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "figures": [
            {**msgspec.to_builtins(each), "passes": each.passes}
            for group in groups
            for each in group
        ],
    }
    data = msgspec.json.format(msgspec.json.encode(report), indent=2)
    path.write_bytes(data + b"\n")
