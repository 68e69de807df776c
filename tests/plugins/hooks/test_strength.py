"""Of what plugins say to a call the strongest holds, whatever order they stand in."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.hooks.hooked import hooked
from tests.plugins.hooks.ledger import Ledger
from tests.plugins.scene import shown
from tests.scenarios.stage import Stage
from windlass import Agent, TurnResult
from windlass.kernel.outcomes import Finished, Stopped
from windlass.kernel.tool_call import ToolOutcome
from windlass.ports.directives import Continue, Proceed, ReplaceArgs, Retry, ShortCircuit, Stop
from windlass.ports.plugin import Plugin
from windlass.ports.policy import Ask, Deny
from windlass.testing import call, say

WORDS: dict[str, Any] = {
    "deny": Deny(reason="No."),
    "failed": ShortCircuit(ToolOutcome(status="error", value="It failed.")),
    "ask": Ask(title="Really?"),
    "result": ShortCircuit("cached"),
    "replace": ReplaceArgs({"x": 2}),
    "proceed": Proceed(),
}

# What becomes of a call to which two plugins say these, by hand; "both" names the two of them.
VERDICTS = {
    ("deny", "deny"): "denied",
    ("deny", "failed"): "denied",
    ("deny", "ask"): "denied",
    ("deny", "result"): "denied",
    ("deny", "replace"): "denied",
    ("deny", "proceed"): "denied",
    ("failed", "failed"): "failed",
    ("failed", "ask"): "failed",
    ("failed", "result"): "failed",
    ("failed", "replace"): "failed",
    ("failed", "proceed"): "failed",
    ("ask", "ask"): "asked",
    ("ask", "result"): "asked",
    ("ask", "replace"): "asked, replaced",
    ("ask", "proceed"): "asked",
    ("result", "result"): "both",
    ("result", "replace"): "result",
    ("result", "proceed"): "result",
    ("replace", "replace"): "both",
    ("replace", "proceed"): "replaced",
    ("proceed", "proceed"): "ran",
}
STRENGTH = ("both", "denied", "failed", "asked, replaced", "asked", "result", "replaced", "ran")


def verdict_on(words: Sequence[str]) -> str:
    """Return what holds of all that plugins say: the strongest of what holds of any two of them."""
    order = [*WORDS]
    pairs = itertools.combinations(sorted(words, key=order.index), 2)
    return min((VERDICTS[pair] for pair in pairs), key=STRENGTH.index)


async def said_to(stage: Stage, plugins: Sequence[Plugin]) -> tuple[TurnResult[Any], Ledger]:
    ledger = Ledger()
    model = ledger.model([call("act", x=1), say("Done.")])
    agent = Agent("a", model=model, tools=[ledger.tool()], plugins=plugins)
    async with stage.runtime(agent) as rt:
        return await rt.session("s").run("Go.", turn_id="t"), ledger


def came_to(result: TurnResult[Any], ledger: Ledger) -> str:
    """Return what became of the one call, in the words of the table."""
    if result.parked:
        (wait,) = result.waits
        assert (wait.kind, wait.title) == ("approval", "Really?")
        assert ledger.bodies == []
        return "asked" if wait.detail["args"] == {"x": 1} else "asked, replaced"
    (done,) = result.tool_calls
    found = (done.outcome.status, done.outcome.value)
    if done.outcome.status == "denied" and "both" in str(done.outcome.value):
        assert ledger.bodies == []
        return "both"
    named = {
        ("denied", "No."): ("denied", []),
        ("error", "It failed."): ("failed", []),
        ("ok", "cached"): ("result", []),
        ("ok", "did 2"): ("replaced", [2]),
        ("ok", "did 1"): ("ran", [1]),
    }
    name, bodies = named[found]
    assert ledger.bodies == bodies
    return name


PAIRS = [*itertools.product(WORDS, repeat=2)]
TRIPLES = [*itertools.product(WORDS, repeat=3)]


@pytest.mark.parametrize("words", PAIRS, ids="-".join)
async def test_of_two_words_the_stronger_holds_in_both_orders(
    words: tuple[str, ...], memory_stage: Stage
) -> None:
    plugins = [
        hooked(name, before_tool=WORDS[word]) for name, word in zip("ab", words, strict=True)
    ]
    result, ledger = await said_to(memory_stage, plugins)

    assert came_to(result, ledger) == verdict_on(words)
    if verdict_on(words) == "both":
        reason = str(result.tool_calls[0].outcome.value)
        what = "arguments" if words[0] == "replace" else "result"
        assert reason == f"Not run: the plugins a and b both replaced its {what}."
        assert [issue.message for issue in result.issues] == [
            f"the plugins a and b both replaced its {what}; act was not run"
        ]
        assert [issue.code for issue in result.issues] == ["plugin_conflict"]
    else:
        assert result.issues == ()


@pytest.mark.parametrize("first", WORDS)
async def test_of_three_words_the_strongest_holds_in_every_order(
    first: str, tmp_path: Path
) -> None:
    for words in (one for one in TRIPLES if one[0] == first):
        plugins = [hooked(n, before_tool=WORDS[word]) for n, word in zip("abc", words, strict=True)]
        result, ledger = await said_to(Stage("memory", tmp_path), plugins)
        found, wanted = came_to(result, ledger), verdict_on(words)

        # Denied is denied: a conflict and a plain no may both be there, and either may be told.
        if "deny" in words:
            assert found in ("denied", "both"), words
        else:
            assert found == wanted, words


ERRORS: dict[str, Any] = {"stop": Stop("Enough."), "retry": Retry("Again."), "go on": Continue()}


@pytest.mark.parametrize("words", [*itertools.product(ERRORS, repeat=2)], ids="-".join)
async def test_of_what_is_said_to_an_error_stop_is_the_strongest_and_retry_the_next(
    words: tuple[str, ...], memory_stage: Stage
) -> None:
    ledger = Ledger()
    model = ledger.model([call("act", x=13), say("Done.")])
    plugins = [hooked(name, on_error=ERRORS[word]) for name, word in zip("ab", words, strict=True)]
    agent = Agent("a", model=model, tools=[ledger.tool()], plugins=plugins)
    async with memory_stage.runtime(agent) as rt:
        result = await rt.session("s").run("Go.", turn_id="t")

    strongest = min(words, key=[*ERRORS].index)
    assert result.status == "done"
    assert result.outcome == (
        Stopped(reason="tool_failure", detail="Enough.")
        if strongest == "stop"
        else Finished(text="Done.")
    )
    told = result.messages[2]
    assert shown(told) == (
        "user: error: Bad luck.\nAgain." if strongest == "retry" else "user: error: Bad luck."
    )
