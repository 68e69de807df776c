"""Patches: side by side each call sees the state from before and its own; they fold in call order; memory stays."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.plugins.hooks.hooked import hooked
from tests.plugins.hooks.ledger import QUESTION, Ledger
from tests.scenarios.readings import turn_view
from tests.scenarios.stage import Stage, until
from windlass import Agent, Runtime, tool
from windlass.journal.patch import add, append
from windlass.kernel.outcomes import Outcome
from windlass.kernel.tool_call import CompletedToolCall
from windlass.ports.plugin import AskedCall, AtCheckpoint, Plugin
from windlass.ports.plugin_turn import PluginTurn
from windlass.ports.policy import Deny
from windlass.testing import call, calls, say


class Watches(Plugin):
    """Notes the state that each hook around a call sees, and adds to it."""

    def __init__(self, notes: dict[str, Any]) -> None:
        self._notes = notes

    async def before_turn(self, turn: PluginTurn) -> None:
        turn.patch(order=append("start"), n=add(1))

    async def before_tool(self, turn: PluginTurn, call: AskedCall) -> None:
        self._see(turn, f"before {call.ordinal} of {call.of}")

    async def after_tool(self, turn: PluginTurn, call: CompletedToolCall) -> None:
        self._see(turn, f"after {call.args['n']}")

    async def present_result(self, turn: PluginTurn, call: CompletedToolCall) -> None:
        self._see(turn, f"present {call.args['n']}")

    async def at_checkpoint(self, turn: PluginTurn, at: AtCheckpoint) -> None:
        if at.kind == "after_work":
            self._notes["batch"] = dict(turn.state)

    def _see(self, turn: PluginTurn, where: str) -> None:
        self._notes[where] = (*turn.state["order"],)
        turn.patch(order=append(where), n=add(1))
        turn.remember(n=add(1))


async def has_row(runtime: Runtime[Any], ending: str) -> bool:
    """Whether something of this kind is in the turn's journal."""
    journal = (await turn_view(runtime, "s", "t")).journal()
    return any(row.key.endswith(ending) for row in journal.rows())


class Bodies:
    """Bodies that end when they are told to."""

    def __init__(self, n_calls: int = 2) -> None:
        self._asked = [("work", {"n": n}) for n in range(n_calls)]
        self.entered = [asyncio.Event(), asyncio.Event()]
        self.gates = [asyncio.Event(), asyncio.Event()]

    def agent(self, *plugins: Plugin) -> Agent[Any, Any]:
        @tool(effect="keyed")
        async def work(n: int) -> str:
            """Work."""
            self.entered[n].set()
            await self.gates[n].wait()
            return f"worked {n}"

        model = Ledger().model([calls(*self._asked), say("Done.")])
        return Agent("a", model=model, tools=[work], plugins=plugins)

    async def both_entered(self) -> None:
        for event in self.entered:
            await event.wait()


SEEN = {
    "before 0 of 2": ("start",),
    "before 1 of 2": ("start",),
    "after 0": ("start", "before 0 of 2"),
    "after 1": ("start", "before 1 of 2"),
    "present 0": ("start", "before 0 of 2", "after 0"),
    "present 1": ("start", "before 1 of 2", "after 1"),
}
FOLDED = [
    "start",
    *("before 0 of 2", "after 0", "present 0"),
    *("before 1 of 2", "after 1", "present 1"),
]


@pytest.mark.parametrize("first", [0, 1])
async def test_each_call_sees_its_own_and_what_was_before_and_they_fold_in_call_order(
    first: int, stage: Stage
) -> None:
    notes: dict[str, Any] = {}
    bodies = Bodies()
    async with stage.runtime(bodies.agent(Watches(notes))) as rt:
        await rt.session("s").submit("Go.", turn_id="t")
        await bodies.both_entered()
        bodies.gates[first].set()
        await until(lambda: f"present {first}" in notes)
        assert f"after {1 - first}" not in notes
        bodies.gates[1 - first].set()
        await rt.turn("s", "t").result(timeout=HANGS_S)

    batch = notes.pop("batch")
    assert notes == SEEN
    assert batch == {"order": FOLDED, "n": 7}


class Waits(Plugin):
    """Asks its model in the middle of a hook of the first call, while the hooks of the second one run."""

    def __init__(self) -> None:
        self.second_was_asked = asyncio.Event()
        self.seen: dict[int, Any] = {}

    async def before_tool(self, turn: PluginTurn, call: AskedCall) -> None:
        if call.ordinal:
            turn.patch(order=append("second"))
            self.second_was_asked.set()
            return
        await self.second_was_asked.wait()
        turn.patch(order=append("first"))
        await turn.complete(QUESTION)

    async def after_tool(self, turn: PluginTurn, call: CompletedToolCall) -> None:
        self.seen[call.args["n"]] = [*turn.state["order"]]


async def test_a_hook_that_waits_is_not_met_by_the_hooks_of_another_call(stage: Stage) -> None:
    waits, bodies, ledger = Waits(), Bodies(), Ledger()
    for gate in bodies.gates:
        gate.set()
    async with stage.runtime(bodies.agent(waits), models=[ledger.oracle()]) as rt:
        result = await rt.session("s").run("Go.", turn_id="t")
        journal = (await turn_view(rt, "s", "t")).journal()

    assert result.text == "Done."
    assert waits.seen == {0: ["first"], 1: ["second"]}
    # It is paid for where it was asked for: in the hook of the first call.
    asked = [row.key for row in journal.rows() if "/direct_call/" in row.key]
    assert [".0.waits.before_tool." in key for key in asked] == [True]


@pytest.mark.parametrize("first", [0, 1])
async def test_one_has_ended_when_the_process_dies_and_the_fold_is_the_same(
    first: int, stage: Stage
) -> None:
    notes: dict[str, Any] = {}
    bodies, late = Bodies(), Bodies()
    async with stage.runtime(bodies.agent(Watches(notes))) as lost:
        await lost.session("s").submit("Go.", turn_id="t")
        await bodies.both_entered()
        bodies.gates[first].set()
        await until(lambda: f"present {first}" in notes)
        await until(lambda: has_row(lost, f"/{first}/presented"))
        stage.kill(lost)
        notes.clear()
        late.gates[1 - first].set()
        async with stage.runtime(late.agent(Watches(notes))) as rt:
            result = await rt.turn("s", "t").result(timeout=HANGS_S)
        bodies.gates[1 - first].set()

    assert result.text == "Done."
    assert notes.pop("batch") == {"order": FOLDED, "n": 7}
    # Of the one that had ended no hook ran again, nor was the other's decision made anew.
    other = 1 - first
    assert notes == {name: SEEN[name] for name in (f"after {other}", f"present {other}")}


@pytest.mark.parametrize("is_killed", [False, True], ids=["undisturbed", "killed"])
async def test_a_lone_call_sees_its_own_as_well_and_in_the_same_order_after_a_crash(
    is_killed: bool, stage: Stage
) -> None:
    notes, seen = dict[str, Any](), dict[str, Any]()
    bodies, late = Bodies(n_calls=1), Bodies(n_calls=1)
    late.gates[0].set()
    async with stage.runtime(bodies.agent(Watches(notes))) as rt:
        await rt.session("s").submit("Go.", turn_id="t")
        await bodies.entered[0].wait()
        if is_killed:
            stage.kill(rt)
            async with stage.runtime(late.agent(Watches(seen))) as other:
                await other.turn("s", "t").result(timeout=HANGS_S)
            assert (*notes,) == ("before 0 of 1",)
            seen |= notes
        bodies.gates[0].set()
        await rt.turn("s", "t").result(timeout=HANGS_S)

    assert (seen if is_killed else notes) == {
        "before 0 of 1": ("start",),
        "after 0": ("start", "before 0 of 1"),
        "present 0": ("start", "before 0 of 1", "after 0"),
        "batch": {"order": ["start", "before 0 of 1", "after 0", "present 0"], "n": 4},
    }


# ---------------------------------------------------------------------- how long it lasts


class Counts(Plugin):
    """Counts turns in its state and in its memory, and says what it finds."""

    name = "counts"

    def __init__(self, found: list[Any]) -> None:
        self._found = found

    async def before_turn(self, turn: PluginTurn) -> None:
        self._found.append((dict(turn.state), dict(turn.memory)))
        turn.patch(n=add(1))
        turn.remember(n=add(1), turns=append(turn.turn_id, keep=2))

    async def after_turn(self, turn: PluginTurn, outcome: Outcome) -> None:
        turn.remember(last={"state": dict(turn.state)})


def counting(found: list[Any]) -> Agent[Any, Any]:
    return Agent("a", model=Ledger().model([say("Done.")] * 9), plugins=[Counts(found)])


async def test_state_dies_with_the_turn_and_memory_goes_on_over_release_restart_and_fork(
    stage: Stage,
) -> None:
    found: list[Any] = []
    async with stage.runtime(counting(found)) as rt:
        await rt.session("s").run("1", turn_id="t1")
        await rt.session("s").run("2", turn_id="t2")
        await rt.session("s").release()
        await rt.session("s").run("3", turn_id="t3")
        fork = await rt.session("s").fork(id="f")
        await fork.run("4", turn_id="t4")
    async with stage.runtime(counting(found)) as rt:
        await rt.session("s").run("5", turn_id="t5")
        await rt.session("f").run("6", turn_id="t6")
        await rt.session("other").run("7", turn_id="t7")

    last = {"state": {"n": 1}}
    assert found == [
        ({}, {}),
        ({}, {"n": 1, "turns": ["t1"], "last": last}),
        ({}, {"n": 2, "turns": ["t1", "t2"], "last": last}),
        ({}, {"n": 3, "turns": ["t2", "t3"], "last": last}),  # the fork
        ({}, {"n": 3, "turns": ["t2", "t3"], "last": last}),  # where it was forked
        ({}, {"n": 4, "turns": ["t3", "t4"], "last": last}),
        ({}, {}),
    ]


async def test_plugins_do_not_see_each_others(memory_stage: Stage) -> None:
    found: list[Any] = []

    def looks(turn: PluginTurn) -> None:
        found.append((dict(turn.state), dict(turn.memory)))

    agent = counting([])
    agent = Agent(
        "a",
        model=agent.model,
        plugins=[Counts([]), hooked("looks", before_turn=looks)],
    )
    async with memory_stage.runtime(agent) as rt:
        await rt.session("s").run("1", turn_id="t1")
        await rt.session("s").run("2", turn_id="t2")

    assert found == [({}, {}), ({}, {})]


async def test_who_says_no_may_count_it_and_who_raises_has_counted_nothing(stage: Stage) -> None:
    found: list[Any] = []

    def denies(turn: PluginTurn, _call: AskedCall) -> Deny:
        turn.patch(n=add(1))
        return Deny(reason="No.")

    def raises(turn: PluginTurn, _call: AskedCall) -> None:
        turn.patch(n=add(1))
        turn.remember(n=add(1))
        raise ValueError

    def at_checkpoint(turn: PluginTurn, at: AtCheckpoint) -> None:
        found.append((at.kind, dict(turn.state), dict(turn.memory)))

    ledger = Ledger()
    for name, before_tool in (("denies", denies), ("raises", raises)):
        agent = Agent(
            name,
            model=ledger.model([call("act", x=1), say("Done.")]),
            tools=[ledger.tool()],
            plugins=[hooked(name, before_tool=before_tool, at_checkpoint=at_checkpoint)],
        )
        async with stage.runtime(agent) as rt:
            result = await rt.session(name).run("Go.", turn_id="t")
        assert [one.outcome.status for one in result.tool_calls] == ["denied"]

    assert found == [
        ("after_work", {"n": 1}, {}),
        ("before_completion", {"n": 1}, {}),
        ("after_work", {}, {}),
        ("before_completion", {}, {}),
    ]
    assert ledger.bodies == []


@pytest.mark.parametrize("n_calls", [1, 2])
async def test_who_raises_later_does_not_take_back_what_was_changed_before(
    n_calls: int, memory_stage: Stage
) -> None:
    found: list[Any] = []

    def after_tool(turn: PluginTurn, _call: CompletedToolCall) -> None:
        turn.patch(n=add(1))

    def present_result(turn: PluginTurn, _call: CompletedToolCall) -> None:
        turn.patch(n=add(10))
        raise ValueError

    def at_checkpoint(turn: PluginTurn, at: AtCheckpoint) -> None:
        found.append(dict(turn.state))

    ledger = Ledger()
    plugin = hooked(
        "p", after_tool=after_tool, present_result=present_result, at_checkpoint=at_checkpoint
    )
    model = ledger.model([calls(*[("act", {"x": 1})] * n_calls), say("Done.")])
    agent = Agent("a", model=model, tools=[ledger.tool()], plugins=[plugin])
    async with memory_stage.runtime(agent) as rt:
        result = await rt.session("s").run("Go.", turn_id="t")

    assert result.text == "Done."
    assert found[0] == {"n": n_calls}


WRONG: dict[str, Any] = {"object": object(), "large": "x" * 70_000, "surrogate": "\ud800"}


@pytest.mark.parametrize("n_calls", [1, 2])
@pytest.mark.parametrize("wrong", WRONG)
async def test_what_cannot_be_kept_is_a_fault_of_the_plugin_and_hook_that_is_named(
    wrong: str, n_calls: int, memory_stage: Stage
) -> None:
    def patches(turn: PluginTurn, *_given: Any) -> None:
        turn.patch(fine=1)
        turn.patch(wrong=WRONG[wrong])

    ledger = Ledger()
    model = ledger.model([calls(*[("act", {"x": 1})] * n_calls), say("Done.")])
    for hook in ("before_turn", "before_model", "before_tool", "after_tool", "after_turn"):
        agent = Agent(
            hook, model=model, tools=[ledger.tool()], plugins=[hooked("odd", **{hook: patches})]
        )
        async with memory_stage.runtime(agent) as rt:
            result = await rt.session(hook).run("Go.", turn_id="t")
        told = {
            "before_turn": result.outcome,
            "before_model": result.outcome,
            "before_tool": [one.outcome for one in result.tool_calls],
            "after_tool": [one.outcome for one in result.tool_calls],
            "after_turn": result.issues,
        }[hook]
        assert "the plugin odd gave something that cannot be used" in str(told), hook
        assert hook in str(told), hook
        reason = getattr(result.outcome, "reason", None)
        assert reason == ("runtime_error" if hook in ("before_turn", "before_model") else None)
    # before_tool let nothing run; the others did not keep it from running.
    assert ledger.bodies == [1, 1] * n_calls
