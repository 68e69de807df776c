"""Cases 25 to 30: messages that are none, settings that no turn could run with."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest

from tests.abuse.bad_calls_scene import Junk, Scene, results_in, said
from tests.abuse.bad_calls_table import Table, bound
from tests.limits import HANGS_S
from windlass import Agent, Generation, Limits, Runtime, Text, ToolContext, tool
from windlass.errors import ConfigError, InvalidInput, LimitExceeded
from windlass.kernel import (
    Attachment,
    Message,
    StandardDriver,
    ToolResult,
    TurnConfig,
    TurnMachine,
    canonical,
)
from windlass.kernel.messages import ToolCall
from windlass.kernel.outcomes import Finished, Stopped
from windlass.ports import TurnRequest
from windlass.testing import FunctionModel, call

SETTINGS = Table()
MODEL = FunctionModel(lambda _request: "fine")


def _made(kind: Callable[..., object], setting: str, value: object) -> Callable[[], object]:
    return lambda: kind(**{setting: value})


def _runtime(**settings: Any) -> object:
    return Runtime(store="memory:", **settings)


# --- 25, 26, 27: messages and histories -----------------------------------------------------------

for _name, _given, _field in (
    ("no parts", [], "input"),
    ("no parts in a tuple", (), "input"),
    ("blank words", "   \n", "input[0]"),
    ("a part that says nothing", ["x", Text(text="")], "input[1]"),
    ("a dict for a part", [{"type": "text", "text": "x"}], "input[0]"),
    ("a message for a part", [Message(id="m", role="system", parts=(Text(text="x"),))], "input[0]"),
    ("a call for a part", [ToolCall(call_id="c", name="add")], "input[0]"),
    ("None for a part", ["x", None], "input[1]"),
    ("bytes that nobody keeps", [Attachment(ref="0" * 64)], "input[0]"),
):
    SETTINGS.refuse(25, _name, bound(lambda scene, given: scene.run(given), _given), field=_field)
    SETTINGS.refuse(
        25,
        f"enqueue: {_name}",
        bound(lambda scene, given: scene.session.enqueue(given), _given),
        field=_field,
    )
for _name, _data, _field in (
    ("an unknown role", b'{"id":"m","parts":[],"role":"tool","type":"message"}', "$.role"),
    ("an unknown kind of part", b'{"id":"m","parts":[{"type":"zip"}],"role":"user","type":"message"}', "$*"),
):  # fmt: skip
    SETTINGS.build(25, f"bytes: {_name}", partial(canonical.decode, _data, Message), field=_field)
SETTINGS.build(
    25,
    "bytes: an unknown kind of part in a request",
    partial(canonical.decode, b'{"input":[{"type":"zip"}],"type":"turn_request"}', TurnRequest),
    field="$*",
)
SETTINGS.refuse(
    26,
    "a result without its call, as input",
    lambda scene: scene.run([ToolResult(call_id="c", name="add", content=())]),
    field="input[0]",
)


@SETTINGS.row(
    26,
    "a history that begins with a result, has an orphan call, or a call id twice, is refused",
    instead="no door imports histories yet; the machine refuses them, and no turn makes one",
)
async def histories(scene: Scene) -> None:
    config = TurnConfig(driver=StandardDriver(), model="m", session_id="s", turn_id="t")
    asks = Message(id="a", role="assistant", parts=(ToolCall(call_id="c", name="add"),))
    told = ToolResult(call_id="c", name="add", content=())
    answers = Message(id="b", role="user", parts=(told,))
    for history in (
        (answers,),
        (asks,),
        (
            asks,
            answers,
            msgspec.structs.replace(asks, id="d"),
            msgspec.structs.replace(answers, id="e"),
        ),
    ):
        with pytest.raises(InvalidInput):
            TurnMachine(config, history)
    await scene.told(call("add", a=1, b=2))
    TurnMachine(config, await scene.session.history())


@SETTINGS.row(
    27,
    "100,000 messages: no more than 256 parts come in at once",
    instead="no door imports histories yet",
)
async def many(scene: Scene) -> None:
    kept = await scene.kept()
    for act in (scene.run, scene.session.enqueue, scene.session.submit):
        with pytest.raises(LimitExceeded) as caught:
            await act(["x"] * 100_000)
        assert (caught.value.field, caught.value.wanted) == ("input", 256)
    with pytest.raises(LimitExceeded) as caught:
        await scene.run([Attachment(ref="0" * 64)] * 33)
    assert (caught.value.field, caught.value.wanted) == ("input", 32)
    assert await scene.kept() == kept
    assert (await scene.run(["x"] * 256)).outcome == Finished(text="fine")


# --- 28: the prompt and the generation ------------------------------------------------------------

LONG = "x" * (1024 * 1024 + 1)
SETTINGS.build(
    28,
    "instructions of over 1 MiB",
    lambda: Agent("a", model=MODEL, instructions=LONG),
    field="Agent.instructions",
    error=ConfigError,
)
SETTINGS.refuse(
    28,
    "a prompt of over 1 MiB",
    lambda scene: scene.run(prompt=LONG),
    field="prompt",
    error=LimitExceeded,
)
SETTINGS.build(
    28,
    "10,000 stop sequences",
    lambda: Generation(stop=("x",) * 10_000),
    field="Generation.stop",
    error=LimitExceeded,
)
HOT: Junk = "hot"
for _setting, _value in (
    ("temperature", HOT), ("temperature", -1), ("temperature", 1e9), ("temperature", math.nan),
    ("top_p", 1.5), ("max_output_tokens", 0), ("max_output_tokens", 2**63), ("seed", 1.5),
):  # fmt: skip
    SETTINGS.build(
        28,
        f"{_setting} of {_value!r}",
        _made(Generation, _setting, _value),
        field=f"Generation.{_setting}",
    )
for _setting, _value in (
    ("generation", {"temperature": 1}),
    ("limits", {"max_tokens": 1}),
    ("model", 5),
):
    SETTINGS.refuse(
        28,
        f"{_setting}={_value!r}",
        bound(lambda scene, setting, value: scene.run(**{setting: value}), _setting, _value),
        field=_setting,
    )
SETTINGS.refuse(
    28, "a model that nobody has", lambda scene: scene.run(model="gpt-99"), field="model"
)
SETTINGS.refuse(28, "a model without a name", lambda scene: scene.run(model=""), field="model")


@SETTINGS.row(28, "an option that does not exist is not passed over")
async def misspelled(scene: Scene) -> None:
    kept = await scene.kept()
    for act in (scene.run, scene.submit):
        with pytest.raises((TypeError, InvalidInput), match="turnid"):
            await act("x", turnid="t")
    assert await scene.kept() == kept


@SETTINGS.row(28, "instructions that turn out to be no text end nothing but their own turn")
async def odd_instructions(scene: Scene) -> None:
    made: list[Any] = ["\ud800", 5, LONG]
    agent = Agent("odd", model=MODEL, instructions=lambda _info: made.pop(0) if made else "be kind")
    async with Runtime(agent, store="memory:") as rt:
        for _ in range(3):
            with pytest.raises((InvalidInput, LimitExceeded, ConfigError)) as caught:
                await rt.session("s").run("x")
            assert "instructions" in (caught.value.field or "")
        assert (await rt.session("s").run("x")).text == "fine"


# --- 29, 30: budgets and times --------------------------------------------------------------------

for _limit in ("max_iterations", "max_tool_calls", "max_tokens", "max_parallel", "output_retries"):
    for _value in (-1, 1.5, "3", True, math.nan):
        SETTINGS.build(
            29,
            f"{_limit} of {_value!r}",
            _made(Limits, _limit, _value),
            field=f"Limits.{_limit}",
        )


SETTINGS.build(
    29,
    "max_iterations of 0: a turn that may ask no model does nothing",
    _made(Limits, "max_iterations", 0),
    field="Limits.max_iterations",
)
for _limit in ("max_reply_bytes", "max_args_bytes", "max_result_bytes"):
    _most = 1024 * 1024 * (64 if _limit == "max_result_bytes" else 4)
    for _size in (0, -1, 1.5, "3", True, math.nan, None, _most + 1):
        SETTINGS.build(
            29, f"{_limit} of {_size!r}", _made(Limits, _limit, _size), field=f"Limits.{_limit}"
        )
for _seconds in (0, -1, "3", True, math.nan, math.inf):
    SETTINGS.build(
        30,
        f"max_call_seconds of {_seconds!r}",
        _made(Limits, "max_call_seconds", _seconds),
        field="Limits.max_call_seconds",
    )


@SETTINGS.row(29, "a budget of 0 ends the turn at once with that outcome; no model is asked")
async def nothing_to_spend(scene: Scene) -> None:
    for limits, reason in (
        (Limits(max_tokens=0), "limit"),
        (Limits(max_seconds=0), "limit"),
    ):
        asked = len(scene.model.requests)
        outcome = (await scene.run(limits=limits)).outcome
        assert isinstance(outcome, Stopped)
        assert outcome.reason == reason
        assert len(scene.model.requests) == asked


@SETTINGS.row(29, "no tool calls allowed: the one asked for does not run")
async def no_calls(scene: Scene) -> None:
    scene.says(call("add", a=1, b=2))
    result = await scene.run(limits=Limits(max_tool_calls=0))
    assert isinstance(result.outcome, Stopped)
    assert (result.outcome.reason, scene.ran) == ("limit", [])
    assert [one.status for one in results_in(result.messages)] == ["cancelled"]


@SETTINGS.row(29, "no limit and a huge limit let a turn run")
async def plenty(scene: Scene) -> None:
    for limits in (
        Limits(max_iterations=None, max_tokens=None, max_tool_calls=None),
        Limits(max_iterations=2**70, max_tokens=2**70, max_tool_calls=2**70, max_seconds=1e300),
    ):
        assert (await scene.run(limits=limits)).outcome == Finished(text="fine")


NO_TIMES: tuple[Any, ...] = (math.nan, math.inf, -1, "1", True)
# A turn may have no time at all; a tool and a person need some.
for _limit, _values in {
    "max_seconds": NO_TIMES,
    "provider_patience": NO_TIMES,
    "tool_timeout": (*NO_TIMES, 0),
    "approval_timeout": (*NO_TIMES, 0),
}.items():
    for _value in _values:
        SETTINGS.build(
            30,
            f"{_limit} of {_value!r}",
            _made(Limits, _limit, _value),
            field=f"Limits.{_limit}",
        )
for _value in (*NO_TIMES, 0):
    SETTINGS.build(
        30,
        f"a tool's timeout of {_value!r}",
        partial(lambda value: tool(timeout=value)(_of_int), _value),
        field="tool _of_int: timeout",
        error=ConfigError,
    )
    for _setting in ("lease_s", "retention"):
        if (_setting, _value) != ("retention", 0):
            SETTINGS.build(
                30,
                f"{_setting} of {_value!r}",
                _made(_runtime, _setting, _value),
                field=_setting,
                error=ConfigError,
            )
for _value in (math.nan, math.inf, -1, "1"):
    SETTINGS.refuse(
        30,
        f"result(timeout={_value!r})",
        bound(lambda scene, value: scene.rt.turn("w", "w").result(timeout=value), _value),
        field="timeout",
        needs="deferred",
    )


def _of_int(a: int) -> int:
    return a


@SETTINGS.row(30, "a deferred result with a deadline in the past comes too late at once")
async def past_deadline(scene: Scene) -> None:
    async def defer(ctx: ToolContext[Any]) -> object:
        return await ctx.defer(deadline=0)

    scene.deed = defer
    scene.says(call("do"))
    handle = await scene.session.submit("x", turn_id="d")
    while not (ended := await handle.result(timeout=HANGS_S)).outcome:
        assert ended.parked
    assert ended.tool_calls[0].outcome.status == "timeout"


@SETTINGS.row(30, "a deadline that is no time is refused to the tool, and the model is told")
async def no_deadline(scene: Scene) -> None:
    for bad in (math.nan, math.inf, "soon", 1e300):
        deadline: Junk = bad

        async def defer(ctx: ToolContext[Any], deadline: Junk = deadline) -> object:
            return await ctx.defer(deadline=deadline)

        scene.deed = defer
        told = await scene.told(call("do"))
        assert told.status == "error"
        assert "deadline" in said(told)
    assert await scene.rt.waits() == ()


@SETTINGS.row(
    30,
    "nobody waits for nothing: a timeout of 0 raises at once, and the turn goes on",
    needs="deferred",
)
async def at_once(scene: Scene) -> None:
    hold = await scene.rt.session("w").submit("behind")
    with pytest.raises(TimeoutError):
        await hold.result(timeout=0)
    await scene.rt.resolve(scene.key, 1)
    assert (await hold.result(timeout=HANGS_S)).outcome == Finished(text="fine")
