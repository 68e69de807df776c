"""Samples of one thing, and two things compared that were measured in turn."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import msgspec


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the report: a median with its spread, and the bar it is held to, if any."""

    name: str
    unit: str
    median: float
    low: float
    high: float
    n_samples: int
    bar: float | None = None

    @property
    def passes(self) -> bool | None:
        """Whether it is within its bar; None without one."""
        return None if self.bar is None else self.median <= self.bar


def figure(name: str, unit: str, samples: Sequence[float], *, bar: float | None = None) -> Figure:
    """Sum samples up: the median, and the tenth and ninetieth percentile as spread."""
    deciles = statistics.quantiles(samples, n=10, method="inclusive")
    return Figure(
        name=name,
        unit=unit,
        median=statistics.median(samples),
        low=deciles[0],
        high=deciles[-1],
        n_samples=len(samples),
        bar=bar,
    )


def ratio(
    name: str,
    blocks: Sequence[Sequence[float]],
    floors: Sequence[Sequence[float]],
    *,
    bar: float | None = None,
) -> Figure:
    """Compare block by block: the two of a pair ran side by side, so both saw the same machine."""
    pairs = [
        statistics.median(block) / statistics.median(floor)
        for block, floor in zip(blocks, floors, strict=True)
    ]
    return figure(name, "x", pairs, bar=bar)
