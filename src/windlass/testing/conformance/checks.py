"""Checks: claims about a store, each a function that fails unless the claim holds.

A claim is a public coroutine function in the module of its subject. It takes the scene; one that also takes a `turn`
finds it begun: `t1` of the session `s1`, by a worker of its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from inspect import iscoroutinefunction, signature
from types import ModuleType
from typing import NamedTuple, TypeAlias

from windlass.testing.conformance.harness import StoreHarness
from windlass.testing.conformance.scene import Scene

Claim: TypeAlias = Callable[..., Awaitable[None]]

_WITH_CRASH: set[Claim] = set()


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
            scene = Scene(harness, await harness.make())
            if "turn" in signature(self.claim).parameters:
                await self.claim(scene, await scene.begin())
            else:
                await self.claim(scene)
        finally:
            await harness.close()
        return True


def with_crash(claim: Claim) -> Claim:
    """Mark a claim about what is there after a crash."""
    _WITH_CRASH.add(claim)
    return claim


def claims_in(module: ModuleType) -> Iterator[Check]:
    """Return the claims on one subject, in the order in which they are written down."""
    subject = module.__name__.rpartition(".")[2].replace("_", " ")
    for name, found in vars(module).items():
        is_own = iscoroutinefunction(found) and found.__module__ == module.__name__
        if is_own and not name.startswith("_"):
            yield Check(subject, name, found, crashes=found in _WITH_CRASH)
