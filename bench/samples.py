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
    at_least: bool = False

    @property
    def passes(self) -> bool | None:
        """Whether it is within its bar, or with `at_least` beyond it; None without one."""
        if self.bar is None:
            return None
        return self.median >= self.bar if self.at_least else self.median <= self.bar


def figure(
    name: str,
    unit: str,
    samples: Sequence[float],
    *,
    bar: float | None = None,
    at_least: float | None = None,
) -> Figure:
    """Sum samples up: the median, and the tenth and ninetieth percentile as spread.

    `bar` is what the median must not exceed, `at_least` what it must reach.
    """
    deciles = list(samples)
    if len(samples) > 1:
        deciles = statistics.quantiles(samples, n=10, method="inclusive")
    return Figure(
        name=name,
        unit=unit,
        median=statistics.median(samples),
        low=deciles[0],
        high=deciles[-1],
        n_samples=len(samples),
        bar=bar if at_least is None else at_least,
        at_least=at_least is not None,
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
