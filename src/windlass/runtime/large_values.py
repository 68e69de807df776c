"""Large values: what takes long on them happens in a thread, so that the loop's other tasks do not notice.

A thread alone is not enough: one call into C keeps all threads waiting until it returns. So what works on text there
goes through it in pieces (`guards.text`), and a single call stays in the order of some 10 ms for the largest values.

Law. Below `LARGE` everything happens on the loop, as if this module were not there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

from windlass.guards.text import LARGE
from windlass.tools.threads import in_thread

P = ParamSpec("P")
R = TypeVar("R")

# A value of more parts is taken for a large one without looking at all of them.
_MAX_PARTS = 4_096
# A timer that is due is seen in the next pass of the loop, and wakes its task for the one after that.
_PASSES = 3
_CONTAINERS = (dict, list, tuple)


def is_large(value: object) -> bool:
    """Whether plain JSON is long, or has many parts; what a value of another type holds is not looked at."""
    if type(value) is str:
        return len(value) > LARGE
    if not isinstance(value, _CONTAINERS):
        return False
    n_chars, found = 0, [value]
    for one in found:
        if isinstance(one, str):
            n_chars += len(one)
        elif isinstance(one, _CONTAINERS):
            if len(one) > _MAX_PARTS:
                return True
            found += one.values() if isinstance(one, dict) else one
        if n_chars > LARGE or len(found) > _MAX_PARTS:
            return True
    return False


async def let_others_run() -> None:
    """Let all other tasks of the loop have a turn, those too whose timers came due meanwhile."""
    for _ in range(_PASSES):
        await asyncio.sleep(0)


async def off_loop(do: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a pure function in a thread; return what it returns."""
    return await in_thread(partial(do, *args, **kwargs))  # type: ignore[return-value]  # what it returns
