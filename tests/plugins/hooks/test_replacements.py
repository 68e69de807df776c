"""Other arguments, other results: seen once more by whoever came before, and never replaced twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.plugins.hooks.hooked import hooked
from tests.plugins.hooks.ledger import Ledger
from tests.scenarios.stage import Stage
from windlass import Agent, TurnResult
from windlass.kernel.tool_call import CompletedToolCall, ToolOutcome
from windlass.ports.directives import ReplaceArgs, ShortCircuit
from windlass.ports.plugin import AskedCall, Plugin
from windlass.ports.plugin_turn import PluginTurn
from windlass.ports.policy import Ask, Deny
from windlass.testing import Scenario, call, calls, kill_everywhere, say


async def done(
    stage: Stage, *plugins: Plugin, x: int = 1, **options: Any
) -> tuple[TurnResult[Any], Ledger]:
    """Return what became of a turn with one call."""
    ledger = Ledger()
    model = ledger.model([call("act", x=x), say("Done.")])
    agent = Agent("a", model=model, tools=[ledger.tool()], plugins=plugins, **options)
    async with stage.runtime(agent) as rt:
        return await rt.session("s").run("Go.", turn_id="t"), ledger


def of(result: TurnResult[Any]) -> tuple[str, Any]:
    """Return how the one call ended."""
    (found,) = result.tool_calls
    return found.outcome.status, found.outcome.value


class Inspector:
    """Sees arguments and results, and says something to some of them."""

    def __init__(self, answers: Sequence[tuple[int, Any]] = ()) -> None:
        self.saw: list[Any] = []
        self._answers = dict(answers)

    def plugin(self, name: str) -> Plugin:
        def before_tool(_turn: PluginTurn, call: AskedCall) -> object:
            self.saw.append(call.args["x"])
            return self._answers.get(call.args["x"])

        return hooked(name, before_tool=before_tool)


DOUBLES = ReplaceArgs({"x": 2})


async def test_who_came_before_sees_the_new_arguments_once_and_who_comes_after_only_them(
    memory_stage: Stage,
) -> None:
    first, second, last = Inspector(), Inspector(), Inspector()
    plugins = [
        first.plugin("first"),
        second.plugin("second"),
        hooked("doubles", before_tool=DOUBLES),
        last.plugin("last"),
    ]
    result, ledger = await done(memory_stage, *plugins)

    assert (first.saw, second.saw, last.saw) == ([1, 2], [1, 2], [2])
    assert of(result) == ("ok", "did 2")
    assert ledger.bodies == [2]
    assert result.tool_calls[0].args == {"x": 2}


@pytest.mark.parametrize(
    ("word", "wanted"),
    [
        (Deny(reason="Not 2."), ("denied", "Not 2.")),
        (ShortCircuit(ToolOutcome(status="error", value="No 2.")), ("error", "No 2.")),
    ],
    ids=["deny", "failed"],
)
async def test_a_no_to_the_new_arguments_holds_though_the_old_ones_were_fine(
    word: object, wanted: tuple[str, str], memory_stage: Stage
) -> None:
    guard = Inspector([(2, word)])
    doubles = hooked("doubles", before_tool=DOUBLES)
    result, ledger = await done(memory_stage, guard.plugin("guard"), doubles)

    assert of(result) == wanted
    assert ledger.bodies == []
    assert guard.saw == [1, 2]


@pytest.mark.parametrize("n_calls", [1, 2])
async def test_a_no_to_the_new_arguments_holds_wherever_the_process_dies(n_calls: int) -> None:
    """The call that was denied is kept with the arguments that the model gave."""
    ledger = Ledger()
    script = (calls(*[("act", {"x": 1})] * n_calls), call("act", x=5), say("Done."))

    def guard(_turn: PluginTurn, call: AskedCall) -> object:
        return {1: DOUBLES, 2: Deny(reason="Not 2.")}.get(call.args["x"])

    def scenario() -> Scenario:
        return Scenario(
            agents=lambda: Agent(
                "a",
                model=ledger.model(script),
                tools=[ledger.tool()],
                plugins=[hooked("guard", before_tool=guard), hooked("same", before_tool=guard)],
            ),
            run=lambda rt: rt.session("s").run("Go.", turn_id="t"),
            check=check,
        )

    def check(result: TurnResult[Any]) -> None:
        assert not result.parked
        found = [(one.args["x"], one.outcome.status) for one in result.tool_calls]
        assert found == [*[(1, "denied")] * n_calls, (5, "ok")]

    await kill_everywhere(scenario)


async def test_a_question_about_the_new_arguments_is_asked(memory_stage: Stage) -> None:
    guard = Inspector([(2, Ask(title="Two?"))])
    doubles = hooked("doubles", before_tool=DOUBLES)
    result, ledger = await done(memory_stage, guard.plugin("guard"), doubles)

    assert [(wait.title, wait.detail["args"]) for wait in result.waits] == [("Two?", {"x": 2})]
    assert ledger.bodies == []


async def test_a_no_to_the_old_arguments_holds_though_the_new_ones_are_fine(
    memory_stage: Stage,
) -> None:
    guard = Inspector([(1, Deny(reason="Not 1."))])
    doubles = hooked("doubles", before_tool=DOUBLES)
    result, _ = await done(memory_stage, guard.plugin("guard"), doubles)

    assert of(result) == ("denied", "Not 1.")


async def test_a_cache_that_comes_first_answers_for_the_new_arguments(memory_stage: Stage) -> None:
    cache = Inspector([(1, ShortCircuit("cached 1")), (2, ShortCircuit("cached 2"))])
    empty = Inspector([(1, ShortCircuit("cached 1"))])
    doubles = hooked("doubles", before_tool=DOUBLES)
    hit, _ = await done(memory_stage, cache.plugin("cache"), doubles)

    assert of(hit) == ("ok", "cached 2")
    # What it knew of the old ones is no result of the new ones.
    missed, ledger = await done(Stage("memory", memory_stage.path), empty.plugin("cache"), doubles)

    assert of(missed) == ("ok", "did 2")
    assert ledger.bodies == [2]


async def test_who_replaces_when_he_is_shown_a_replacement_is_in_conflict_with_it(
    memory_stage: Stage,
) -> None:
    triples = Inspector([(2, ReplaceArgs({"x": 3}))])
    doubles = hooked("doubles", before_tool=DOUBLES)
    result, ledger = await done(memory_stage, triples.plugin("triples"), doubles)

    reason = "Not run: the plugins triples and doubles both replaced its arguments."
    assert of(result) == ("denied", reason)
    assert ledger.bodies == []


async def test_arguments_that_do_not_fit_are_no_arguments(memory_stage: Stage) -> None:
    wrong = hooked("wrong", before_tool=ReplaceArgs({"y": "two"}))
    result, ledger = await done(memory_stage, wrong)

    status, reason = of(result)
    assert status == "denied"
    assert reason.startswith("Not run: the arguments by the plugin wrong do not fit:")
    assert ledger.bodies == []


# ---------------------------------------------------------------------- results


def edits(value: str) -> ToolOutcome:
    return ToolOutcome(value=value)


async def test_a_second_result_is_withheld_and_both_are_named(memory_stage: Stage) -> None:
    one, two = hooked("one", after_tool=edits("1")), hooked("two", after_tool=edits("2"))
    result, _ = await done(memory_stage, one, two)

    # The first is shown what the second made of it, and would replace it again.
    assert of(result) == (
        "ok",
        "(Its result is withheld: the plugins one and two both replaced it.)",
    )
    assert [issue.message for issue in result.issues] == [
        "the plugins one and two both replaced it: a result of act"
    ]


async def test_two_who_make_the_same_of_a_result_are_no_conflict(memory_stage: Stage) -> None:
    one, two = hooked("one", after_tool=edits("same")), hooked("two", after_tool=edits("same"))
    result, _ = await done(memory_stage, one, two)

    assert of(result) == ("ok", "same")
    assert result.issues == ()


@pytest.mark.parametrize("order", ["first", "last"])
async def test_who_withholds_wins_whatever_the_order(order: str, memory_stage: Stage) -> None:
    plugins = [
        hooked("edits", after_tool=edits("edited")),
        hooked("hides", after_tool=Deny(reason="secret")),
    ]
    plugins = plugins if order == "last" else plugins[::-1]
    result, _ = await done(memory_stage, *plugins)

    assert of(result) == ("ok", "(Its result is withheld: secret)")


async def test_who_came_before_sees_the_new_result_and_may_withhold_it(
    memory_stage: Stage,
) -> None:
    saw: list[Any] = []

    def after_tool(_turn: PluginTurn, call: CompletedToolCall) -> Deny | None:
        saw.append(call.outcome.value)
        return Deny(reason="not that") if call.outcome.value == "edited" else None

    first = hooked("first", after_tool=after_tool)
    result, _ = await done(memory_stage, first, hooked("edits", after_tool=edits("edited")))

    assert saw == ["did 1", "edited"]
    assert of(result) == ("ok", "(Its result is withheld: not that)")


async def test_presenting_comes_after_editing_and_leaves_the_value(memory_stage: Stage) -> None:
    saw: list[Any] = []

    def present_result(_turn: PluginTurn, call: CompletedToolCall) -> str:
        saw.append(call.outcome.value)
        return "in short"

    presents = hooked("presents", present_result=present_result)
    result, ledger = await done(memory_stage, presents, hooked("edits", after_tool=edits("edited")))

    assert saw == ["edited"]
    assert of(result) == ("ok", "edited")
    assert ledger.asked(1)[-1] == "user: ok: in short"
