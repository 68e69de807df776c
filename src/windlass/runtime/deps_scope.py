"""Deps: what tools are given to work with, made once per drive and let go of at its end."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any

from windlass.ports.turn_info import TurnInfo

NONE_GIVEN: object = object()


def deps_for(
    factory: Callable[..., Any] | None, given: object, info: TurnInfo
) -> AbstractAsyncContextManager[object]:
    """Hold the deps of a drive: those that came with the call, or what the factory makes."""
    if given is not NONE_GIVEN:
        return nullcontext(given)
    return nullcontext() if factory is None else _made_by(factory, info)


@asynccontextmanager
async def _made_by(factory: Callable[..., Any], info: TurnInfo) -> AsyncIterator[object]:
    made = factory(info)
    if isinstance(made, AbstractAsyncContextManager):
        async with made as deps:
            yield deps
        return
    yield await made if inspect.isawaitable(made) else made
