"""Processes: started once under their id, by a program, a tool or another process; seen and ended by their handles."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.stage import Desk, Stage, until
from windlass import (
    Agent,
    ProcessContext,
    ProcessHandle,
    Runtime,
    ToolContext,
    TurnInfo,
    process,
    tool,
)
from windlass.errors import (
    ArgsInvalid,
    ConfigError,
    IdempotencyConflict,
    InvalidInput,
    ProcessCancelled,
    ProcessFailed,
    SessionDeleted,
    UnknownSession,
)
from windlass.kernel.events import ProcessEvent, ToolFinished, TurnEnded
from windlass.testing import ScriptedModel, call, say


@dataclass
class Parcel:
    grams: int
    to: str = "Oslo"


@process
async def weigh(ctx: ProcessContext[Any], parcel: Parcel, twice: bool = False) -> Parcel:
    grams = await ctx.step(lambda: parcel.grams, name="scales")
    await ctx.emit("weighed", grams)
    return Parcel(grams * 2 if twice else grams)


@process
async def asleep(ctx: ProcessContext[Any], about: str = "") -> str:
    await ctx.sleep(days=1)
    return f"woke {about}"


async def ended(handle: ProcessHandle[Any]) -> Any:  # noqa: ANN401 - JSON
    return await handle.result(timeout=HANGS_S)


async def test_a_process_ends_with_the_value_of_its_function_as_the_type_that_it_declares(
    stage: Stage,
) -> None:
    async with stage.runtime(processes=[weigh]) as rt:
        handle = await rt.processes.start(weigh, id="p-1", parcel=Parcel(40), twice=True)
        found = await handle.result(timeout=HANGS_S)
        status = await handle.status()

    assert found == Parcel(80)
    assert (status.id, status.name, status.state) == ("p-1", "weigh", "done")
    assert (status.record, status.value) == ({"weighed": 40}, {"grams": 80, "to": "Oslo"})
    assert status.ended_ms == stage.clock.now_ms()
    assert status.n_continued == 0


async def test_the_same_start_attaches_and_another_one_under_its_id_conflicts(stage: Stage) -> None:
    async with stage.runtime(processes=[weigh, asleep]) as rt:
        first = await rt.processes.start(asleep, id="one", about="a")
        again = await rt.processes.start("asleep", id="one", args={"about": "a"})
        with pytest.raises(IdempotencyConflict, match="process one"):
            await rt.processes.start(asleep, id="one", about="b")
        with pytest.raises(IdempotencyConflict, match="process one"):
            await rt.processes.start(weigh, id="one", parcel=Parcel(1))
        others = [await rt.processes.start(asleep) for _ in range(2)]

    assert first.session_id == again.session_id
    assert len({first.id, *(one.id for one in others)}) == 3


async def test_arguments_are_checked_before_anything_starts(stage: Stage) -> None:
    async with stage.runtime(processes=[weigh]) as rt:
        with pytest.raises(ArgsInvalid, match=r"args\.parcel\.grams.*int"):
            await rt.processes.start(weigh, id="p", parcel={"grams": "much"})
        with pytest.raises(ArgsInvalid, match=r"args\.parcel: found nothing"):
            await rt.processes.start("weigh", id="p")
        with pytest.raises(
            ArgsInvalid, match=r"args\.colour: found an argument that does not exist"
        ):
            await rt.processes.start(weigh, id="p", parcel=Parcel(1), colour="red")
        with pytest.raises(ArgsInvalid, match=r"args\.parcel"):
            await rt.processes.start(weigh, id="p", parcel=object())
        with pytest.raises(InvalidInput, match="process: found int"):
            await rt.processes.start(3)  # type: ignore[call-overload]  # that is the point
        assert await rt.processes.list() == ()


async def test_arguments_called_as_options_are_given_in_a_mapping(stage: Stage) -> None:
    @process
    async def odd(ctx: ProcessContext[Any], id: str, session: str, args: int) -> list[Any]:
        return [ctx.id, id, session, args]

    async with stage.runtime(processes=[odd]) as rt:
        handle = await rt.processes.start(
            odd, id="mine", args={"id": "i", "session": "s", "args": 1}
        )
        assert await ended(handle) == ["mine", "i", "s", 1]


async def test_what_is_not_there_or_was_deleted_says_so(stage: Stage) -> None:
    async with stage.runtime(processes=[asleep]) as rt:
        nothing = rt.processes.get("nothing")
        for act in (nothing.status, nothing.result, nothing.cancel, nothing.delete):
            with pytest.raises(UnknownSession, match="process nothing: is not known"):
                await act()
        with pytest.raises(UnknownSession):
            await rt.processes.start(asleep, session="no-such-chat")
        handle = await rt.processes.start(asleep, id="p")
        await handle.delete()
        with pytest.raises(SessionDeleted, match="process p: was deleted"):
            await handle.status()
        with pytest.raises(SessionDeleted):
            await rt.processes.start(asleep, id="p")


async def test_processes_are_listed_by_session_and_by_state(stage: Stage) -> None:
    agent = Agent("clerk", model=ScriptedModel([say("Hello.")]))
    async with stage.runtime(agent, processes=[asleep, weigh]) as rt:
        await rt.session("chat").run("Hello?")
        mine = [await rt.processes.start(asleep, id=f"mine-{n}", session="chat") for n in range(3)]
        done = await rt.processes.start(weigh, id="other", parcel=Parcel(1))
        await ended(done)
        await mine[0].cancel("enough")
        with pytest.raises(ProcessCancelled, match="process mine-0: cancelled: enough"):
            await ended(mine[0])
        for one in mine[1:]:
            await until(partial(_is, one, "waiting"))

        of_chat = await rt.processes.list(session="chat")
        pages = [await rt.processes.list(limit=2)]
        pages.append(await rt.processes.list(after=pages[0][-1].session_id, limit=10))
        by_state = {
            state: {one.id for one in await rt.processes.list(state=state, limit=1 + 3)}
            for state in ("waiting", "done", "cancelled", "failed")
        }
        with pytest.raises(InvalidInput, match="state"):
            await rt.processes.list(state="parked")  # type: ignore[arg-type]  # that is the point
        chats = await rt.sessions()

    assert {(one.id, one.session) for one in of_chat} == {(f"mine-{n}", "chat") for n in range(3)}
    assert sorted(one.id for page in pages for one in page) == [
        "mine-0",
        "mine-1",
        "mine-2",
        "other",
    ]
    assert by_state == {
        "waiting": {"mine-1", "mine-2"}, "done": {"other"}, "cancelled": {"mine-0"}, "failed": set(),
    }  # fmt: skip
    assert [one.session_id for one in chats] == ["chat"]


async def test_the_facts_of_a_process_are_seen_to_its_end_from_any_cursor(stage: Stage) -> None:
    async with stage.runtime(processes=[weigh]) as rt:
        handle = await rt.processes.start(weigh, id="p", parcel=Parcel(3))
        seen = [event async for event in handle.events()]
        await until(lambda: not rt._worker.driving)
    async with stage.runtime() as reader:
        other = reader.processes.get("p")
        told = [event async for event in other.events()]
        behind = [event async for event in other.events(seen[0].cursor)]
        nothing = [event async for event in other.events(told[-1].cursor)]
        with pytest.raises(InvalidInput, match="cursor"):
            other.events("nonsense")

    kinds = [
        type(event) for event in seen if isinstance(event, (ToolFinished, ProcessEvent, TurnEnded))
    ]
    assert kinds == [ToolFinished, ProcessEvent, TurnEnded]
    assert [event.id for event in told] == [event.id for event in seen]
    assert [event.id for event in behind] == [event.id for event in seen[1:]]
    assert nothing == []


async def test_a_runtime_with_processes_alone_is_a_worker_and_one_without_leaves_them_alone(
    stage: Stage,
) -> None:
    async with stage.runtime() as client:
        handle = await client.processes.start("weigh", id="p", parcel={"grams": 2})
        assert (await handle.status()).state == "queued"
        async with stage.runtime(processes=[asleep]) as other:
            await until(lambda: other._worker._engine is not None)
            foreign = (await other.status()).foreign
            assert [(turn.session_id, turn.agent) for turn in foreign] == [
                (handle.session_id, "process:weigh")
            ]
            assert (await other.status()).processes == ("asleep",)
        async with stage.runtime(processes=[weigh]) as worker:
            assert (await worker.status()).agents == ()
            assert await ended(worker.processes.get("p")) == {"grams": 2, "to": "Oslo"}
        assert await ended(handle) == {"grams": 2, "to": "Oslo"}


async def test_two_workers_drive_one_process_each(stage: Stage) -> None:
    async with stage.runtime(processes=[weigh]) as one, stage.runtime(processes=[asleep]) as two:
        handles = [
            await two.processes.start("weigh", id="w", parcel={"grams": 1}),
            await one.processes.start("asleep", id="a"),
        ]
        assert await ended(handles[0]) == {"grams": 1, "to": "Oslo"}
        await until(lambda: _is(handles[1], "waiting"))
        stage.later(86_400, one, two)
        assert await ended(handles[1]) == "woke "


async def _is(handle: ProcessHandle[Any], state: str) -> bool:
    return (await handle.status()).state == state


async def test_a_single_agent_beside_processes_is_still_the_one_of_new_sessions(
    stage: Stage,
) -> None:
    agent = Agent("clerk", model=ScriptedModel([say("Hello.")]))
    async with stage.runtime(agent, processes=[weigh]) as rt:
        assert (await rt.session("s").run("Hello?")).text == "Hello."
        with pytest.raises(ConfigError, match="agent"):
            rt.session("t", agent="process:weigh")


def test_what_is_no_process_or_comes_twice_is_refused() -> None:
    async def plain(ctx: ProcessContext[Any]) -> None: ...

    with pytest.raises(ConfigError, match=r"processes\[0\].*a function without @process"):
        Runtime(store="memory:", processes=[plain])  # type: ignore[list-item]  # that is the point
    with pytest.raises(ConfigError, match=r"processes\[1\].*a second process called weigh"):
        Runtime(store="memory:", processes=[weigh, weigh])
    with pytest.raises(ConfigError, match="async function"):
        process(len)  # type: ignore[arg-type]  # that is the point
    with pytest.raises(ConfigError, match="recovery"):
        process(recovery="never")(plain)  # type: ignore[call-overload]  # that is the point
    with pytest.raises(ConfigError, match=r"signals\.paid"):
        process(signals={"paid": Desk})(plain)

    @process
    async def untyped(ctx) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001 - that is the point

    assert untyped.name == "untyped"
    with pytest.raises(ConfigError, match="no parameters"):

        @process
        async def nothing() -> None: ...


async def test_deps_are_made_for_each_drive_by_the_name_of_the_process(stage: Stage) -> None:
    @process(deps_type=str)
    async def greet(ctx: ProcessContext[str]) -> str:
        return ctx.deps

    @process
    async def bare(ctx: ProcessContext[None]) -> str:
        return repr(ctx.deps)

    with pytest.raises(ConfigError, match="process greet needs deps"):
        stage.runtime(processes=[greet])
    with pytest.raises(ConfigError, match=r"deps\['nobody'\]"):
        stage.runtime(processes=[greet], deps={"nobody": lambda _: "x"})

    def of_turn(info: TurnInfo) -> str:
        return f"deps of {info.agent}"

    async with stage.runtime(processes=[greet, bare], deps={"greet": of_turn}) as rt:
        found = [await ended(await rt.processes.start(one)) for one in (greet, bare)]
    assert found == ["deps of process:greet", "None"]


async def test_a_tool_starts_a_process_that_belongs_to_its_session(stage: Stage) -> None:
    started: list[str] = []

    @tool(effect="idempotent")
    async def ship(ctx: ToolContext[Any], grams: int) -> str:
        one = await ctx.start(weigh, parcel=Parcel(grams))
        two = await ctx.start(weigh, parcel=Parcel(grams))
        named = await ctx.start("weigh", id="named", parcel={"grams": grams})
        started.extend(ref.id for ref in (one, two, named))
        return named.id

    @tool
    async def ship_again(ctx: ToolContext[Any]) -> str:
        await ctx.start(weigh, id="named", parcel=Parcel(1_000_000))
        return "never"

    model = ScriptedModel([call("ship", grams=7), call("ship_again"), say("Shipped.")])
    agent = Agent("clerk", model=model, tools=[ship, ship_again])
    async with stage.runtime(agent, processes=[weigh]) as rt:
        result = await rt.session("chat").run("Ship it.")
        found = await rt.processes.list(session="chat")
        values = [await ended(rt.processes.get(id)) for id in started]

    assert {one.id for one in found} == set(started)
    assert len(set(started)) == 3
    assert values == [{"grams": 7, "to": "Oslo"}] * 3
    refused = result.tool_calls[1].outcome
    assert refused.status == "error"
    assert "process named: was already started with other arguments" in str(refused.value)


async def test_a_process_starts_signals_and_cancels_others_and_waits_for_some(stage: Stage) -> None:
    @process
    async def child(ctx: ProcessContext[Any], n: int) -> object:
        if n < 0:
            raise ValueError("below zero")
        return n * 10 if n else await ctx.wait("go")

    @process
    async def parent(ctx: ProcessContext[Any]) -> object:
        left = await ctx.start(child, id="left", n=0)
        doomed = await ctx.start("child", n=0)
        await ctx.signal(left, "go", {"by": "parent"})
        await ctx.cancel_process(doomed, "not needed")
        values = await asyncio.gather(*(ctx.run(child, n=n) for n in (1, 2, 3)))
        try:
            await ctx.run("child", n=-1)
        except ProcessFailed as error:
            return [values, str(error), doomed.id]
        return None

    async with stage.runtime(processes=[child, parent]) as rt:
        handle = await rt.processes.start(parent, id="p")
        values, failure, doomed = await ended(handle)
        assert await ended(rt.processes.get("left")) == {"by": "parent"}
        with pytest.raises(ProcessCancelled, match="not needed"):
            await ended(rt.processes.get(doomed))
        of_parent = await rt.processes.list(session=handle.session_id)

    assert values == [10, 20, 30]
    assert failure == "process child: It stopped (runtime_error). ValueError: below zero"
    assert len(of_parent) == 2 + 4


async def test_times_and_random_values_are_the_same_in_every_drive(stage: Stage) -> None:
    seen: list[Any] = []

    @process
    async def values(ctx: ProcessContext[Any]) -> list[str]:
        now, number, name = await ctx.now(), await ctx.random(), await ctx.uuid()
        seen.append((now, number, name))
        await ctx.sleep(60)
        return [now.isoformat(), str(name)]

    async with stage.runtime(processes=[values]) as rt:
        handle = await rt.processes.start(values)
        await until(lambda: _is(handle, "waiting"))
        stage.later(60, rt)
        now, name = await ended(handle)

    assert len(seen) == 2
    assert seen[0] == seen[1]
    assert 0 <= seen[0][1] < 1
    assert (now, name) == ("2023-11-14T22:13:20+00:00", str(seen[0][2]))
