"""Instants as tests write them: text in UTC."""

from __future__ import annotations

from datetime import UTC, datetime


def ms(text: str) -> int:
    """Return the instant of `2026-03-29 01:00` in UTC."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1000


def utc(instants_ms: list[int] | tuple[int, ...]) -> list[str]:
    """Return instants as `ms` reads them."""
    return [f"{datetime.fromtimestamp(one / 1000, UTC):%Y-%m-%d %H:%M}" for one in instants_ms]
