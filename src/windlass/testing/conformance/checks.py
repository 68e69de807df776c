"""Checks: claims about a store, each a function that fails unless the claim holds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from windlass.testing.conformance.harness import StoreHarness
from windlass.testing.conformance.scene import Scene

Claim = Callable[[Scene], Awaitable[None]]


class Check(NamedTuple):
    """One claim, by its subject and name."""

    subject: str
    name: str
    claim: Claim
    crashes: bool = False

    async def run(self, harness: StoreHarness) -> bool:
        """Put the claim to a new store; False if it does not apply to such a store.

        Raises:
            AssertionError: the claim does not hold.
        """
        if self.crashes and not harness.is_durable:
            return False
        try:
            await self.claim(Scene(harness, await harness.make()))
        finally:
            await harness.close()
        return True


class Claims:
    """The claims on one subject, in the order in which they are written down."""

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self.checks: list[Check] = []

    def claim(self, function: Claim) -> Claim:
        """Add a claim."""
        self.checks.append(Check(self.subject, function.__name__, function))
        return function

    def claim_with_crash(self, function: Claim) -> Claim:
        """Add a claim about what is there after a crash."""
        self.checks.append(Check(self.subject, function.__name__, function, crashes=True))
        return function
