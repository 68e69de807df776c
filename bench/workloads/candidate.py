"""Whoever runs the workloads: opened once in its process, then asked for turns."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

C = TypeVar("C", bound="Candidate")


class Candidate:
    """A runtime that is measured. `variant` is its own word for how it is set up."""

    def __init__(self, variant: str, folder: Path) -> None:
        self.variant = variant
        self.folder = folder

    async def open(self) -> None:
        """Get ready; not measured, but for a cold start."""

    async def turn(self, session: str, asked: str) -> str:
        """Run a turn and return the answer."""
        raise NotImplementedError

    async def resume(self, session: str, asked: str) -> str:
        """Go on with a turn that a killed process has left, and return the answer."""
        raise LookupError(f"nothing is kept of {session}, which was asked {asked:.20}")

    async def close(self) -> None:
        """Let go of files and threads."""


@asynccontextmanager
async def opened(candidate: C) -> AsyncIterator[C]:
    """Open a candidate, and close it."""
    await candidate.open()
    try:
        yield candidate
    finally:
        await candidate.close()
