"""What a tool's own functions decide: which calls a person approves, whether an attempt acted."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.errors import ConfigError, ToolFailed
from windlass.ports.tool import Done, NotDone, ToolContext, Unknown
from windlass.tools import FunctionTool, tool

CTX: ToolContext[Any] = ToolContext(deps=None)


def pay(x: int) -> int:
    return x


async def later(ctx: ToolContext[Any], args: dict[str, Any]) -> bool:
    return bool(args["x"] > ctx.attempt)


@pytest.mark.parametrize(
    ("approval", "small", "large"),
    [
        ("never", False, False),
        ("ask", True, True),
        (lambda args: args["x"] > 1, False, True),
        (lambda ctx, args: args["x"] > ctx.attempt, False, True),
        (later, False, True),
        pytest.param(
            lambda ctx, args: later(ctx, args),  # noqa: PLW0108 - sync, with something to await
            False,
            True,
            id="returns-a-coroutine",
        ),
        pytest.param(lambda args: None, True, True, id="only-False-lets-it-pass"),
    ],
)
async def test_a_tool_says_which_calls_a_person_decides(
    approval: Any,  # noqa: ANN401 - of every kind
    small: bool,
    large: bool,
) -> None:
    made: FunctionTool[Any, ..., Any] = tool(pay, approval=approval)

    assert await made.needs_approval(CTX, {"x": 1}) is small
    assert await made.needs_approval(CTX, {"x": 2}) is large


async def test_an_approval_that_raises_lets_nothing_pass() -> None:
    made = tool(pay, approval=lambda args: args["nothing"])

    with pytest.raises(KeyError):
        await made.needs_approval(CTX, {"x": 1})


async def test_an_approval_cannot_change_what_will_run() -> None:
    def spoil(args: dict[str, Any]) -> bool:
        args["x"].append(1)
        return False

    args: dict[str, Any] = {"x": []}
    await tool(pay, approval=spoil).needs_approval(CTX, args)

    assert args == {"x": []}


async def test_a_reconciler_answers_with_what_it_found() -> None:
    async def ask(ctx: ToolContext[Any], args: dict[str, Any]) -> Done:
        return Done(args["x"])

    by_ask = tool(pay, reconcile=ask)
    by_args = tool(pay, reconcile=lambda args: NotDone())

    assert (by_ask.effect, by_args.effect) == ("reconcile", "reconcile")
    done = await by_ask.reconcile(CTX, {"x": 7})
    assert isinstance(done, Done)
    assert done.value == 7
    assert isinstance(await by_args.reconcile(CTX, {"x": 7}), NotDone)
    assert isinstance(await tool(pay).reconcile(CTX, {"x": 7}), Unknown)


async def test_a_reconciler_that_answers_otherwise_is_named() -> None:
    made = tool(pay, reconcile=lambda args: "done")  # type: ignore[arg-type,return-value]

    with pytest.raises(ToolFailed, match=r"tool pay: reconcile: found str, wanted Done"):
        await made.reconcile(CTX, {"x": 7})


def test_a_tool_runs_in_the_background_if_it_says_so() -> None:
    in_front, behind = tool(pay), tool(pay, background=True)

    assert (in_front.background, behind.background) == (False, True)
    # It is the same to a crash, so records of it stay comparable.
    assert in_front.version == behind.version


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"background": 1}, "background: found 1, wanted True or False"),
        ({"background": True, "sequential": True}, "found background and sequential, wanted one"),
    ],
)
def test_a_wrong_background_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        tool(pay, **options)
    assert not tool(pay, sequential=True).background
