"""Effect contracts: what a crash may do to a tool is what the tool declared, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.readings import Told, last_told, told
from tests.scenarios.stage import Desk, Stage, until
from windlass import Agent, Done, NotDone, Runtime, ToolContext, Unknown, tool
from windlass.kernel.outcomes import Finished
from windlass.ports import Store
from windlass.testing import ScriptedModel, call, calls, say

UNKNOWN = (
    "It is not known whether act acted: the process ended while it ran. It was not run again. "
    "Do not assume that it did or did not; check first if you can."
)


def actor(desk: Desk, model: ScriptedModel, **options: Any) -> Agent[None, str]:
    @tool(**options)
    async def act(ctx: ToolContext[None], n: int) -> str:
        """Act."""
        await desk.work((n, ctx.idempotency_key, ctx.attempt))
        return f"did {n}"

    return Agent("actor", model=model, tools=[act])


def script() -> ScriptedModel:
    return ScriptedModel([call("act", n=1), say("Done.")])


@pytest.mark.parametrize("effect", ["pure", "idempotent", "keyed"])
async def test_a_body_that_may_run_again_runs_again_with_the_same_key(
    stage: Stage, effect: str
) -> None:
    desk, model = Desk(is_open=False), script()
    async with stage.runtime(actor(desk, model, effect=effect)) as lost:
        await lost.session("s").submit("Go.", turn_id="t")
        await desk.entered.wait()
        if (
            effect == "pure"
        ):  # nothing is written for it before it runs; let the reply reach the store
            view = lost._services.store
            await until(lambda: _has_reply(view))
        stage.kill(lost)
        fresh = Desk()
        async with stage.runtime(actor(fresh, model, effect=effect)) as rt:
            result = await rt.turn("s", "t").result(timeout=HANGS_S)
        desk.gate.set()

    ((n1, key1, attempt1),), ((n2, key2, attempt2),) = desk.runs, fresh.runs
    assert n1 == n2 == 1
    assert key1 == key2
    assert key1.startswith("wl_")
    assert len(key1) == 43
    assert (attempt1, attempt2) == ((1, 1) if effect == "pure" else (1, 2))
    assert result.outcome == Finished(text="Done.")
    assert result.issues == ()
    assert len(model.requests) == 2  # the reply that asked for it was not bought again


async def _has_reply(store: Store) -> bool:
    view = await store.load_turn("s", "t")
    return view is not None and any("model_call" in row.key for row in view.journal().rows())


async def test_a_body_that_acts_once_is_never_run_again_and_everybody_is_told(
    stage: Stage,
) -> None:
    desk, model = Desk(is_open=False), script()
    async with stage.runtime(actor(desk, model)) as lost:
        await lost.session("s").submit("Go.", turn_id="t")
        await desk.entered.wait()
        stage.kill(lost)
        async with stage.runtime(actor(desk, model)) as rt:
            result = await rt.turn("s", "t").result(timeout=HANGS_S)
            stored = await rt.session("s").run("Go.", turn_id="t")
        desk.gate.set()

    assert len(desk.runs) == 1
    assert last_told(model) == [Told("call_0_0", "unknown", UNKNOWN)]
    assert result.outcome == Finished(text="Done.")
    for one in (result, stored):
        assert [issue.code for issue in one.issues] == ["unknown_outcome"]
        assert "act (call_0_0)" in one.issues[0].message
        assert one.output_state == "recovered"


async def test_an_equal_call_after_an_unknown_one_asks_first_and_another_does_not(
    stage: Stage,
) -> None:
    desk = Desk(is_open=False)
    model = ScriptedModel(
        [
            call("act", n=1),
            calls(("act", {"n": 1}), ("act", {"n": 2})),
            say("One."),
            call("act", n=1),
            say("Two."),
        ]
    )
    async with stage.runtime(actor(desk, model)) as lost:
        await lost.session("s").submit("Go.", turn_id="t")
        await desk.entered.wait()
        stage.kill(lost)
        fresh = Desk()
        async with stage.runtime(actor(fresh, model)) as rt:
            parked = await rt.turn("s", "t").result(timeout=HANGS_S)
            assert [run[0] for run in fresh.runs] == [2]  # it was not asked about
            (wait,) = parked.waits
            assert wait.title == "act may have acted already; run it again?"
            assert wait.detail["risk"] == "high"
            await rt.approve(wait.key)
            assert (await rt.turn("s", "t").result(timeout=HANGS_S)).text == "One."
            # And in a later turn of the session, too.
            assert (await rt.session("s").run("Again.", turn_id="t2")).parked
        desk.gate.set()

    assert [run[0] for run in fresh.runs] == [2, 1]


async def test_an_equal_call_in_a_fork_or_another_session_is_its_own(stage: Stage) -> None:
    desk = Desk(is_open=False)
    model = ScriptedModel([call("act", n=1), say("One."), call("act", n=1), say("Two.")])
    async with stage.runtime(actor(desk, model)) as lost:
        await lost.session("s").submit("Go.", turn_id="t")
        await desk.entered.wait()
        stage.kill(lost)
        desk_two = Desk()
        async with stage.runtime(actor(desk_two, model)) as rt:
            await rt.turn("s", "t").result(timeout=HANGS_S)
            result = await rt.session("other").run("Go.", turn_id="t")
        desk.gate.set()

    assert result.text == "Two."
    assert [run[0] for run in desk_two.runs] == [1]


@pytest.mark.parametrize("answer", ["done", "not-done", "unknown", "raises", "nonsense"])
async def test_a_reconciler_says_what_became_of_a_lost_call(stage: Stage, answer: str) -> None:
    desk, model = Desk(is_open=False), script()
    seen: list[Any] = []

    def reconcile(ctx: ToolContext[None], args: dict[str, Any]) -> object:
        seen.append((args, ctx.idempotency_key))
        if answer == "raises":
            raise RuntimeError("The ledger is closed.")
        return {
            "done": Done("did it before"), "not-done": NotDone(), "unknown": Unknown(),
            "nonsense": "maybe",
        }[answer]  # fmt: skip

    async with stage.runtime(actor(desk, model, reconcile=reconcile)) as lost:
        await lost.session("s").submit("Go.", turn_id="t")
        await desk.entered.wait()
        stage.kill(lost)
        fresh = Desk()
        async with stage.runtime(actor(fresh, model, reconcile=reconcile)) as rt:
            result = await rt.turn("s", "t").result(timeout=HANGS_S)
            if answer in ("unknown", "raises", "nonsense"):
                (wait,) = result.waits
                assert (wait.kind, wait.call_id) == ("unknown_outcome", "call_0_0")
                assert wait.detail == {"tool": "act", "args": {"n": 1}}
                await rt.resolve(wait.key, "a person says it did", by="eva")
                result = await rt.turn("s", "t").result(timeout=HANGS_S)
        desk.gate.set()

    assert seen[0] == ({"n": 1}, desk.runs[0][1])
    assert len(seen) == 1
    assert [run[0] for run in fresh.runs] == ([1] if answer == "not-done" else [])
    text = {"done": "did it before", "not-done": "did 1"}.get(answer, "a person says it did")
    assert last_told(model) == [Told("call_0_0", "ok", text)]
    assert result.text == "Done."


async def test_once_a_person_has_spoken_the_reconciler_is_not_asked_again(stage: Stage) -> None:
    """It may have changed its mind; then the call would run although a person said that it had."""
    desk, model = Desk(is_open=False), script()
    asked: list[int] = []

    def reconcile(args: dict[str, Any]) -> Unknown | NotDone:
        asked.append(1)
        return Unknown() if len(asked) == 1 else NotDone()

    async with stage.runtime(actor(desk, model, reconcile=reconcile)) as lost:
        await lost.session("s").submit("Go.", turn_id="t")
        await desk.entered.wait()
        stage.kill(lost)
        fresh = Desk()
        async with stage.runtime(actor(fresh, model, reconcile=reconcile)) as rt:
            parked = await rt.turn("s", "t").result(timeout=HANGS_S)
            await rt.resolve(parked.waits[0].key, "it did")
            await rt.turn("s", "t").result(timeout=HANGS_S)
        desk.gate.set()

    assert fresh.runs == []
    assert last_told(model) == [Told("call_0_0", "ok", "it did")]


async def test_a_person_may_say_that_a_lost_call_did_not_act(stage: Stage) -> None:
    desk, model = Desk(is_open=False), script()
    agent = actor(desk, model, reconcile=lambda args: Unknown())
    async with stage.runtime(agent) as lost:
        await lost.session("s").submit("Go.", turn_id="t")
        await desk.entered.wait()
        stage.kill(lost)
        async with stage.runtime(agent) as rt:
            parked = await rt.turn("s", "t").result(timeout=HANGS_S)
            await rt.reject(parked.waits[0].key, "It never reached the bank.")
            await rt.turn("s", "t").result(timeout=HANGS_S)
        desk.gate.set()

    assert len(desk.runs) == 1
    assert last_told(model) == [Told("call_0_0", "error", "It never reached the bank.")]


async def test_the_recorded_contract_governs_a_recorded_intent(stage: Stage) -> None:
    """New code calls the tool idempotent; the intent was written under `once`."""
    desk, model = Desk(is_open=False), script()
    async with stage.runtime(actor(desk, model, effect="once")) as lost:
        await lost.session("s").submit("Go.", turn_id="t")
        await desk.entered.wait()
        stage.kill(lost)
        async with stage.runtime(actor(desk, model, effect="idempotent")) as rt:
            await rt.turn("s", "t").result(timeout=HANGS_S)
        desk.gate.set()

    assert len(desk.runs) == 1
    assert [one.status for one in last_told(model)] == ["unknown"]


async def test_of_parallel_calls_each_goes_by_its_own_record(stage: Stage) -> None:
    """One had ended, one was inside its body, one had not begun: one result each, in call order."""
    desk = Desk(is_open=False)
    quick: list[int] = []

    @tool(effect="once")
    async def fast(n: int) -> str:
        """Act fast."""
        quick.append(n)
        return f"fast {n}"

    model = ScriptedModel([calls(("fast", {"n": 1}), ("act", {"n": 2})), say("Done.")])
    agent = Agent("actor", model=model, tools=[fast, *actor(desk, model).toolbox])
    async with stage.runtime(agent) as lost:
        await lost.session("s").submit("Go.", turn_id="t")
        await desk.entered.wait()
        store = lost._services.store
        await until(lambda: _has_result(store))
        stage.kill(lost)
        async with stage.runtime(agent) as rt:
            result = await rt.turn("s", "t").result(timeout=HANGS_S)
        desk.gate.set()

    assert (quick, len(desk.runs)) == ([1], 1)
    assert [one.outcome.status for one in result.tool_calls] == ["ok", "unknown"]
    assert told(model.requests[-1])[0].text == "fast 1"


async def _has_result(store: Store) -> bool:
    view = await store.load_turn("s", "t")
    rows = view.journal().rows() if view is not None else ()
    return any("tool_call" in row.key and row.outcome is not None for row in rows)


async def _is_idle(runtime: Runtime[Any]) -> bool:
    return (await runtime.status()).driving == ()


async def test_a_zombie_that_ends_late_changes_nothing(stage: Stage) -> None:
    desk, model = Desk(is_open=False), script()
    async with stage.runtime(actor(desk, model)) as lost:
        await lost.session("s").submit("Go.", turn_id="t")
        await desk.entered.wait()
        stage.kill(lost)
        async with stage.runtime(actor(desk, model)) as rt:
            before = await rt.turn("s", "t").result(timeout=HANGS_S)
            desk.gate.set()
            await until(lambda: _is_idle(lost))
            after = await rt.session("s").run("Go.", turn_id="t")
            history = await rt.session("s").history()

    assert before.messages == after.messages == history
    assert [one.outcome.status for one in after.tool_calls] == ["unknown"]
