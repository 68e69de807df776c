"""Background tools under crashes: a body runs as its contract says, and its session is woken once."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.building import all_ended, build_tool, builder, heard, processes
from tests.scenarios.stage import Desk, Stage
from windlass import Agent, Runtime
from windlass.journal import Contract
from windlass.kernel import CompletedToolCall, ModelReply, ModelRequest
from windlass.ports import Errand, Wait
from windlass.runtime.approvals import Permit
from windlass.runtime.background import BackgroundCallRun
from windlass.testing import CrashFound, FunctionModel, Scenario, call, calls, kill_everywhere, say
from windlass.testing.crashing.disk import MemoryDisk
from windlass.testing.crashing.kill_everywhere import StoreKind, crash_points
from windlass.testing.crashing.life import run_trial


class Yard:
    """A world: what was built in it, by all the lives together, and what its session heard at the end."""

    def __init__(self, effect: Contract, *, approval: str = "never", refs: tuple[str, ...]) -> None:
        self.effect = effect
        self.approval = approval
        self.refs = refs
        self.built: list[tuple[str, str]] = []
        self.heard: list[str] = []
        # Of the life that runs: no result comes before its first turn has ended, so that each begins a turn.
        self.desk = Desk()

    def agents(self) -> Agent[Any, Any]:
        self.desk = desk = Desk(is_open=False)
        desk.runs = self.built

        def reply(request: ModelRequest) -> ModelReply:
            if len(request.messages) == 1:
                return calls(*(("build", {"ref": ref}) for ref in self.refs))
            return say("I see.")

        options = {"effect": self.effect, "approval": self.approval}
        return Agent("ci", model=FunctionModel(reply), tools=[build_tool(desk, **options)])

    async def run(self, rt: Runtime[Any]) -> None:
        await rt.session("s").run("Build.", turn_id="t")
        self.desk.gate.set()
        await all_ended(rt)
        self.heard = await heard(rt)


def scenario(yard: Yard, **more: Any) -> Scenario:
    return Scenario(agents=yard.agents, run=yard.run, **more)


@pytest.mark.parametrize("store", ["memory", "sqlite"])
async def test_killed_anywhere_it_is_built_under_one_key_and_told_once(store: StoreKind) -> None:
    def make() -> Scenario:
        yard = Yard("keyed", refs=("main",))

        def check(_: object) -> None:
            assert len(set(yard.built)) == 1
            assert 1 <= len(yard.built) <= 2
            assert yard.heard == ["build (p): built main"]

        return scenario(yard, check=check)

    report = await kill_everywhere(make, store=store, timeout=HANGS_S)

    named = [str(point) for point in report.points]
    assert any("before build" in point for point in named)
    assert any("after build" in point for point in named)
    assert report.missed == ()


async def test_a_start_in_a_unit_behind_the_result_would_be_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The fault that the test above is there for: the model is told of a process that a crash can lose."""
    start = BackgroundCallRun._start

    def start_later(self: BackgroundCallRun, permit: Permit | None) -> CompletedToolCall:
        lane, held = self.turn.lane, list[Errand]()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(lane, "run_errand", held.append)
            completed = start(self, permit)
        lane.commit_now()
        for errand in held:
            lane.run_errand(errand)
        return completed

    monkeypatch.setattr(BackgroundCallRun, "_start", start_later)
    with pytest.raises(CrashFound) as found:
        await kill_everywhere(lambda: scenario(Yard("keyed", refs=("main",))))

    assert "without a crash: session p_" in str(found.value)


async def test_killed_twice_it_is_built_under_one_key_and_told_once() -> None:
    def make() -> Scenario:
        yard = Yard("keyed", refs=("main",))

        def check(_: object) -> None:
            assert len(set(yard.built)) == 1
            assert yard.heard == ["build (p): built main"]

        return scenario(yard, check=check)

    await kill_everywhere(make, twice=True, max_points=60, timeout=HANGS_S)


async def test_killed_anywhere_a_call_that_was_approved_is_asked_about_once() -> None:
    def make() -> Scenario:
        yard = Yard("keyed", approval="ask", refs=("main",))
        asked: set[str] = set()

        def approve(wait: Wait) -> bool:
            asked.add(wait.key)
            return True

        def check(_: object) -> None:
            assert len(asked) == 1
            assert len(set(yard.built)) == 1
            assert yard.heard == ["build (p): built main"]

        return scenario(yard, approve=approve, check=check)

    await kill_everywhere(make, timeout=HANGS_S)


async def test_killed_anywhere_a_once_body_never_runs_twice_and_its_end_is_told_once() -> None:
    """The end may be another one then, so it is not compared with that of an undisturbed run."""
    unknown = (
        "build (p): It failed. StepUnknown: It is not known whether build acted: the process ended "
        "while it ran. It was not run again. Do not assume that it did or did not; check first if you can."
    )
    ends: list[str] = []
    points = await crash_points(lambda: scenario(Yard("once", refs=("main",))), timeout=HANGS_S)
    for point in points:
        yard = Yard("once", refs=("main",))
        report = await run_trial(
            partial(scenario, yard), MemoryDisk(), point.path, patience_s=HANGS_S
        )
        assert report.error is None, point
        assert len(yard.built) <= 1, point
        (said,) = yard.heard
        assert said in ("build (p): built main", unknown), point
        assert (said == unknown) or len(yard.built) == 1, point
        ends.append(said)

    # Killed in the middle of the body it is unknown; killed elsewhere it is not.
    assert 1 <= ends.count(unknown) < len(points) // 2


async def test_a_worker_that_dies_in_the_middle_leaves_the_body_to_another(stage: Stage) -> None:
    held, desk = Desk(is_open=False), Desk()
    model = FunctionModel(_builds)
    async with stage.runtime(builder(held, model)) as dying:
        await dying.session("s").run("Build.", turn_id="t")
        await asyncio.wait_for(held.entered.wait(), HANGS_S)
        stage.kill(dying)
        async with stage.runtime(builder(desk, model)) as rt:
            await all_ended(rt)
            said = await heard(rt)
        held.gate.set()

    assert said == ["build (p): built main"]
    assert held.runs == desk.runs
    assert len(desk.runs) == 1


async def test_a_worker_without_the_agent_leaves_it_alone_and_shows_it(stage: Stage) -> None:
    held, model = Desk(is_open=False), FunctionModel(_builds)
    other = Agent("other", model=FunctionModel(_builds))
    async with stage.runtime(builder(held, model)) as dying:
        await dying.session("s").run("Build.", turn_id="t")
        await asyncio.wait_for(held.entered.wait(), HANGS_S)
        stage.kill(dying)
        async with stage.runtime(other) as rt:
            (process,) = await processes(rt)
            foreign = (await rt.status()).foreign
        held.gate.set()

    assert [(one.agent, one.session_id) for one in foreign] == [
        ("background:ci", process.session_id)
    ]


async def test_a_runtime_that_closes_leaves_it_to_the_next_one(stage: Stage) -> None:
    desk, model = Desk(), FunctionModel(_builds)
    async with stage.runtime(builder(desk, model)) as rt:
        await rt.session("s").run("Build.", turn_id="t")
    async with stage.runtime(builder(desk, model)) as rt:
        await all_ended(rt)
        said = await heard(rt)

    assert said == ["build (p): built main"]
    assert len(set(desk.runs)) == 1


def _builds(request: ModelRequest) -> ModelReply | str:
    return call("build", ref="main") if len(request.messages) == 1 else "I see."
