"""Case 36, for other code of the user's: deps, instructions, policies, approvers, probes and models that fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from tests.abuse.bad_calls_scene import Junk, Scene, results_in, said
from tests.abuse.bad_calls_table import Act, Table
from tests.limits import HANGS_S
from windlass import Agent, Ask, Deny, Runtime, TurnInfo
from windlass.errors import ConfigError, EngineError
from windlass.kernel import ModelReply, ModelRequest
from windlass.kernel.outcomes import Finished, Stopped
from windlass.testing import FunctionModel, call, say

CALLBACKS = Table()


def fail(*_given: object) -> Any:  # noqa: ANN401 - it returns nothing
    raise ValueError("not to be told: sk-123")


class Policy:
    """Says what it was made with."""

    version = "1"

    def __init__(self, ruling: object) -> None:
        self._ruling = ruling

    def decide(self, _call: object, _session: object) -> Any:  # noqa: ANN401 - or raises
        return fail() if self._ruling is None else self._ruling


@CALLBACKS.row(
    36, "deps that cannot be made: the run says so each time, and the next one that can be goes on"
)
async def deps_fail(scene: Scene) -> None:
    is_down = True

    def deps(_info: TurnInfo) -> str:
        return fail() if is_down else "here"

    async with scene.runtime(store="memory:", deps=deps) as rt:
        for _ in range(2):
            with pytest.raises(EngineError) as caught:
                await asyncio.wait_for(rt.session("s").run("x", turn_id="t"), HANGS_S)
            assert "ValueError" in str(caught.value)
            assert "sk-123" not in str(caught.value)
        is_down = False
        assert (await rt.session("s").run("x", turn_id="t")).outcome == Finished(text="fine")


@CALLBACKS.row(
    36, "deps that fail for a turn that was accepted do not spin, and the turn can be cancelled"
)
async def deps_fail_later(scene: Scene) -> None:
    tries: list[TurnInfo] = []

    def deps(info: TurnInfo) -> object:
        tries.append(info)
        return fail()

    async with scene.runtime(store="memory:", deps=deps) as rt:
        handle = await rt.session("s").submit("x", turn_id="t")
        await asyncio.sleep(0.6)
        assert 1 <= len(tries) <= 3
        await rt.cancel("s", "t", "enough")
        ended = await handle.result(timeout=HANGS_S)
        assert ended.outcome == Stopped(reason="cancelled", detail="enough")


@CALLBACKS.row(36, "deps that cannot be closed cannot undo a turn that is committed")
async def deps_do_not_close(scene: Scene) -> None:
    @asynccontextmanager
    async def deps(_info: TurnInfo) -> AsyncIterator[str]:
        yield "here"
        fail()

    async with scene.runtime(store="memory:", deps=deps) as rt:
        result = await rt.session("s").run("x")
        assert result.outcome == Finished(text="fine")
        assert [issue.code for issue in result.issues] == ["deps_failed"]


RULINGS: dict[str, Any] = {
    "raises": None,
    "allows with a word": "allow",
    "allows with True": True,
    "asks with NUL": Ask(title="\x00"),
    "denies with a lone surrogate": Deny(reason="\ud800"),
    "asks with a risk that is none": Ask(risk="enormous"),  # type: ignore[arg-type]  # that is the row
}


def _allows_nothing(ruling: object) -> Act:
    async def act(scene: Scene) -> None:
        agent = Agent("a", model=scene.model, tools=scene.tools, policy=Policy(ruling))
        async with Runtime(agent, store="memory:") as rt:
            scene.says(call("add", a=1, b=2))
            result = await rt.session("s").run("x")
            assert result.outcome == Finished(text="fine")
            told = results_in(result.messages)[0]
            assert told.status == "denied"
            assert "allows nothing" in said(told)
            assert "sk-123" not in said(told)
            assert scene.ran == []
            assert (await rt.session("s").run("y")).text == "fine"

    return act


for _name, _ruling in RULINGS.items():
    CALLBACKS.row(36, f"a policy that {_name} allows nothing")(_allows_nothing(_ruling))


@CALLBACKS.row(36, "an approver that says anything but True has denied")
async def approver_says_something(scene: Scene) -> None:
    answers: list[Any] = [lambda _wait: "yes", lambda _wait: 1, lambda _wait: None]
    for approve in answers:
        async with scene.runtime(store="memory:", approve=approve) as rt:
            scene.says(call("pay", cents=1))
            result = await rt.session("s").run("x")
            assert result.outcome == Finished(text="fine")
            assert [one.status for one in results_in(result.messages)] == ["denied"]
    assert scene.ran == []


@CALLBACKS.row(
    36, "an approver that fails has not answered: a person may, and nothing it raised is told"
)
async def approver_fails(scene: Scene) -> None:
    async def fail_later(_wait: object) -> Any:  # noqa: ANN401 - it returns nothing
        return fail()

    for approve in (fail, fail_later):
        async with scene.runtime(store="memory:", approve=approve) as rt:
            scene.says(call("pay", cents=1))
            result = await rt.session("s").run("x")
            assert result.parked
            assert scene.ran == []
            await rt.deny(result.waits[0].key, reason="no")
            ended = await rt.turn("s", result.turn_id).result(timeout=HANGS_S)
            assert ended.outcome == Finished(text="fine")
            assert [one.status for one in results_in(ended.messages)] == ["denied"]
            assert "sk-123" not in repr(ended.messages)
    assert scene.ran == []


@CALLBACKS.row(36, "a probe that fails is only a probe")
async def probe_fails(scene: Scene) -> None:
    class Probe:
        begin = end = staticmethod(fail)

    async with scene.runtime(store="memory:", probe=Probe()) as rt:
        assert (await rt.session("s").run("x")).outcome == Finished(text="fine")


class Rude(BaseException):
    """Not meant to be caught."""


@CALLBACKS.row(36, "a model that fails in any way ends its own turn, and no key is told")
async def model_fails(scene: Scene) -> None:
    wrong: list[Any] = [
        ValueError("not to be told: sk-123"), asyncio.CancelledError(), Rude("out"), RecursionError(),
        None, "words", {"text": "hi"},
    ]  # fmt: skip
    given: list[Any] = []

    class Model:
        name = "wrong"

        async def complete(self, _request: ModelRequest, emit: Junk) -> ModelReply:
            emit("not an event")
            answer = given.pop(0) if given else say("fine")
            if isinstance(answer, BaseException):
                raise answer
            return answer

    async with Runtime(Agent("a", model=Model()), store="memory:") as rt:
        for answer in wrong:
            given.append(answer)
            result = await asyncio.wait_for(rt.session("s").run("x"), HANGS_S)
            assert isinstance(result.outcome, Stopped)
            assert result.outcome.reason == "provider_error"
            assert "sk-123" not in result.outcome.detail
        assert (await rt.session("s").run("x")).outcome == Finished(text="fine")


MODEL = FunctionModel(lambda _request: "fine")
NOT_CALLABLE: Junk = 5


def _agent(settings: dict[str, Any]) -> object:
    return Agent("a", **settings)


CALLBACKS.build(
    36, "deps= that cannot be called", lambda: Runtime(Agent("a", model=MODEL), deps=NOT_CALLABLE),
    field="deps", error=ConfigError,
)  # fmt: skip
CALLBACKS.build(
    36, "approve= that cannot be called", lambda: Runtime(Agent("a", model=MODEL), approve=NOT_CALLABLE),
    field="approve", error=ConfigError,
)  # fmt: skip
for _setting in ("instructions", "policy", "model"):
    CALLBACKS.build(
        36,
        f"{_setting}= that cannot be asked",
        partial(_agent, {"model": MODEL, _setting: NOT_CALLABLE}),
        field=f"Agent.{_setting}",
        error=ConfigError,
    )


@CALLBACKS.row(36, "a runtime that is closed says so at every door, and can be opened again")
async def closed(scene: Scene) -> None:
    rt = scene.runtime(store="memory:")
    session = rt.session("s")
    async with rt:
        handle = await session.submit("x", turn_id="t")
        await handle.result(timeout=HANGS_S)
    for act in (
        lambda: session.run("x"), lambda: session.submit("x"), lambda: session.enqueue("x"),
        session.history, session.fork, session.delete, handle.result, handle.status, rt.waits,
        rt.status, rt.sessions, rt.usage, lambda: rt.cancel("s", "t"), lambda: rt.resolve("w", 1),
    ):  # fmt: skip
        with pytest.raises(ConfigError) as caught:
            await act()
        assert caught.value.field == "Runtime"
    async with rt:
        assert (await session.run("x", turn_id="t")).text == "fine"
