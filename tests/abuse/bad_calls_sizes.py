"""Case 16: far more text than anybody may hand in, refused without a second copy of it."""

from __future__ import annotations

import tracemalloc
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.abuse.bad_calls_scene import Junk, Scene
from tests.abuse.bad_calls_table import Act, Table
from windlass.errors import InvalidInput, LimitExceeded, WindlassError

SIZES = Table()
_HUGE = 16 * 1024 * 1024


def _without_two_copies(do: Callable[[Scene, str], Awaitable[object]]) -> Act:
    async def act(scene: Scene) -> object:
        huge = "x" * _HUGE
        tracemalloc.start()
        try:
            return await do(scene, huge)
        finally:
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert peak < 1.9 * _HUGE  # one copy, and the room its buffer grew into

    return act


TOO_MUCH: dict[str, tuple[Any, str, Any, type[WindlassError]]] = {
    "input": (lambda scene, huge: scene.run(huge), "input[0]", "", LimitExceeded),
    "prompt": (lambda scene, huge: scene.run(prompt=huge), "prompt", "", LimitExceeded),
    "context": (lambda scene, huge: scene.run(context={"a": huge}), "context", "", LimitExceeded),
    "turn_id": (lambda scene, huge: scene.run(turn_id=huge), "turn_id", "", InvalidInput),
    "a wait's value": (
        lambda scene, huge: scene.rt.resolve(scene.key, huge), "value", "deferred", LimitExceeded,
    ),
    "a wait's error": (
        lambda scene, huge: scene.rt.reject(scene.key, huge), "error", "deferred", LimitExceeded,
    ),
    "a denial's reason": (
        lambda scene, huge: scene.rt.deny(scene.key, reason=huge), "reason", "approval", LimitExceeded,
    ),
    "a cancel's reason": (
        lambda scene, huge: scene.rt.cancel("w", "w", huge), "reason", "deferred", LimitExceeded,
    ),
    "edited arguments": (
        lambda scene, huge: scene.rt.approve(scene.key, edit={"cents": 1, "memo": huge}),
        "edit", "approval", InvalidInput,
    ),
}  # fmt: skip
for _door, (_do, _field, _needs, _error) in TOO_MUCH.items():
    SIZES.refuse(
        16,
        f"{_door}: 16 MiB of text, not copied twice",  # 2 GiB would be the machine's memory
        _without_two_copies(_do),
        field=_field,
        needs=_needs,
        error=_error,
    )


@SIZES.row(16, "text at its limit passes, one byte more does not")
async def at_the_limit(scene: Scene) -> None:
    at_limit: Junk = "\u00e9" * (512 * 1024)
    assert (await scene.run(at_limit)).text == "fine"
    with pytest.raises(LimitExceeded):
        await scene.run(at_limit + "x")
