"""Recovery: what a tool's error leads to, counted by tool and never by timing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plugins.fake_turn import FakeHost, FakeTurn
from tests.plugins.spoken import INPUT, asked, ended
from windlass.errors import ConfigError, Throttled
from windlass.kernel.messages import ToolStatus
from windlass.kernel.tool_call import CompletedToolCall
from windlass.plugins.recovery import OnError, Recovery, Scope, ToolRecovery
from windlass.ports.directives import Continue, ErrorDirective, Retry, Stop
from windlass.ports.plugin import Trouble

SHORT = {"prompt": "again: {tool}: {error}", "grace": "last: {count}: {errors}"}


async def play(plugin: Recovery, turn: FakeTurn, *batch: CompletedToolCall) -> list[Any]:
    """Let the calls of one reply end, in call order; return what each failure led to."""
    said = [
        asked(*((call.call_id, call.name, {}) for call in batch)),
    ]
    turn.host.turn_messages = [INPUT, *said]
    answers: list[ErrorDirective | None] = []
    for call in batch:
        await plugin.after_tool(turn, call)
        if call.outcome.status in ("error", "timeout", "unknown"):
            answers.append(await plugin.on_error(turn, Trouble(kind="tool", call=call)))
    turn.settle()
    return answers


def failed(n: int, tool: str = "pay", call_id: str = "c") -> CompletedToolCall:
    return ended(tool, call_id, "error", f"E{n}")


def ok(tool: str = "pay", call_id: str = "c") -> CompletedToolCall:
    return ended(tool, call_id)


# --- one error ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("on_error", "status", "wanted"),
    [
        ("retry", "error", Retry("again: pay: boom")),
        ("retry", "timeout", Retry("again: pay: boom")),
        # It may have acted: nobody says "once more".
        ("retry", "unknown", Continue()),
        ("continue", "error", Continue()),
        ("continue", "unknown", Continue()),
        ("stop", "error", Stop("pay failed: boom")),
        ("stop", "unknown", Stop("pay failed: boom")),
    ],
)
async def test_an_error_leads_to_what_was_chosen(
    on_error: OnError, status: ToolStatus, wanted: ErrorDirective
) -> None:
    plugin = Recovery(on_error=on_error, **SHORT)  # type: ignore[arg-type]

    assert await play(plugin, FakeTurn("recovery"), ended("pay", "c", status, "boom")) == [wanted]


async def test_a_failed_model_call_is_not_its_business() -> None:
    trouble = Trouble(kind="model", model="m", error=Throttled("slow down"))
    turn = FakeTurn("recovery")

    assert await Recovery(on_error="stop").on_error(turn, trouble) is None
    assert turn._changes == {}


async def test_a_tool_may_have_rules_of_its_own_and_takes_the_rest_from_the_plugin() -> None:
    plugin = Recovery(
        prompt="P {tool}",
        breaker=1,
        grace="G",
        per_tool={
            "pay": ToolRecovery(on_error="stop"),
            "find": ToolRecovery(breaker=2),
            "look": ToolRecovery(prompt="L", breaker=None),
        },
    )
    turn = FakeTurn("recovery")

    assert await play(plugin, turn, failed(1, "pay")) == [Stop("pay failed: E1")]
    assert await play(plugin, turn, failed(1, "find")) == [Retry("P find")]
    assert await play(plugin, turn, failed(1, "other")) == [Retry("G")]
    assert [await play(plugin, turn, failed(n, "look")) for n in range(9)] == [[Retry("L")]] * 9


async def test_braces_and_placeholders_in_errors_stay_what_they_are() -> None:
    plugin = Recovery(prompt='{"why": "{error}"} {tool} {nothing}')

    answers = await play(plugin, FakeTurn("recovery"), ended("pay", "c", "error", "{tool} {x}"))

    assert answers == [Retry('{"why": "{tool} {x}"} pay {nothing}')]


# --- the breaker -------------------------------------------------------------------------------

# Each row: batches of one tool ("x" failed, "." succeeded, "?" denied), then what each failure led to:
# r retry, g grace, S stop.
ROWS = [
    ("x x x x", "r r g S"),
    ("x x . x x x x", "r r  r r g S"),
    ("x x ? x x", "r r  g S"),  # a denied call is neither
    ("x x x . x", "r r g  r"),  # the grace round went well
    ("x x x . x x x x", "r r g  r r g S"),
    # Two in one reply are judged alike, by what was before the reply, and counted each.
    ("xx x x", "rr g S"),
    ("xxx x x", "rrr g S"),
    ("xxxxx x x", "rrrrr g S"),
    ("x xx x", "r rr g"),  # three by then, but only now is the model told
    ("x x xx x", "r r gg S"),
    ("x x x xx", "r r g SS"),
    # A success in the same reply stands where it stands.
    ("x. x x x", "r r r g"),
    (".x x x x", "r r g S"),
    ("x x .x x x x", "r r g r g S"),
    ("x x x. x x x x", "r r g r r g S"),
    ("x x x .x", "r r g S"),
]


@pytest.mark.parametrize(("batches", "wanted"), ROWS)
@pytest.mark.parametrize("scope", ["turn", "session"])
async def test_the_third_failure_in_a_row_gives_grace_and_the_next_reply_s_failure_stops(
    batches: str, wanted: str, scope: Scope
) -> None:
    plugin = Recovery(breaker=3, prompt="r", grace="g", scope=scope)
    turn = FakeTurn("recovery")
    kinds = {"x": "error", ".": "ok", "?": "denied"}

    found = []
    for n, batch in enumerate(batches.split()):
        calls = [
            ended("pay", f"c{n}-{at}", kinds[kind], "E")  # type: ignore[arg-type]
            for at, kind in enumerate(batch)
        ]
        answers = await play(plugin, turn, *calls)
        found += ["S" if isinstance(one, Stop) else one.prompt for one in answers]

    assert found == list(wanted.replace(" ", ""))


async def test_the_grace_round_tells_all_errors_and_the_stop_names_tool_count_and_last_error() -> (
    None
):
    plugin, turn = Recovery(breaker=3), FakeTurn("recovery")
    for n in (1, 2):
        await play(plugin, turn, failed(n))

    (grace,) = await play(plugin, turn, failed(3))
    (stop,) = await play(plugin, turn, failed(4))

    assert "pay has now failed 3 times in a row" in grace.prompt
    assert "- E1\n- E2\n- E3\n" in grace.prompt
    assert stop == Stop("pay failed 4 times in a row; the last error: E4")


async def test_tools_are_counted_apart() -> None:
    plugin, turn = Recovery(breaker=2, prompt="r", grace="g"), FakeTurn("recovery")

    found = [
        await play(plugin, turn, failed(1, "pay")),
        await play(plugin, turn, failed(1, "find")),
        await play(plugin, turn, ok("find")),
        await play(plugin, turn, failed(2, "pay")),
        await play(plugin, turn, failed(1, "find")),
    ]

    assert found == [[Retry("r")], [Retry("r")], [], [Retry("g")], [Retry("r")]]


async def test_which_of_two_calls_ends_first_changes_nothing() -> None:
    """The hooks of one reply run in any order; their patches fold in call order."""
    ends = []
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        host = FakeHost()
        plugin = Recovery(breaker=2, prompt="r", grace="g")
        await play(plugin, FakeTurn("recovery", host), failed(0))
        calls = [failed(1, call_id="c1"), ok(call_id="c2"), failed(3, call_id="c3")]
        turns = [FakeTurn("recovery", host) for _ in calls]
        host.turn_messages = [asked(*((one.call_id, one.name, {}) for one in calls))]
        for at in order:
            await plugin.after_tool(turns[at], calls[at])
            if calls[at].outcome.status == "error":
                await plugin.on_error(turns[at], Trouble(kind="tool", call=calls[at]))
        for turn in turns:
            turn.settle()
        ends.append(host.states["recovery"])

    assert ends[0] == {"tools": {"pay": {"failures": 1, "errors": ["E3"], "warned": True}}}
    assert ends[1:] == ends[:1] * 2


async def test_errors_are_kept_short_and_few() -> None:
    plugin, turn = Recovery(breaker=100, grace="{errors}"), FakeTurn("recovery")
    for n in range(99):
        await play(plugin, turn, ended("pay", "c", "error", f"{n:03}" + "x" * 10_000))

    (grace,) = await play(plugin, turn, failed(100))

    assert len(turn.state["tools"]["pay"]["errors"]) == 10
    lines = grace.prompt.splitlines()
    assert len(lines) == 10
    assert lines[-1] == "- E100"
    assert (
        lines[0] == "- 090" + "x" * 396 + "…"
    )  # 400 characters, the last says that there was more


async def test_a_success_without_a_failure_before_it_writes_nothing() -> None:
    plugin, turn = Recovery(), FakeTurn("recovery")

    turn.host.turn_messages = [asked(("c", "pay", {}), ("d", "find", {}))]
    await plugin.after_tool(turn, ok())

    assert turn._changes == {}


async def test_a_row_of_the_session_outlasts_the_turn_and_the_next_turn_gets_its_own_grace() -> (
    None
):
    plugin, turn = Recovery(breaker=2, prompt="r", grace="g", scope="session"), FakeTurn("recovery")
    for n in range(3):
        await play(plugin, turn, failed(n))
    turn.host.states.clear()  # the turn ended, stopped by the third

    (after,) = await play(plugin, turn, failed(4))
    (stop,) = await play(plugin, turn, failed(5))

    assert turn.state == {}
    assert after == Retry("g")
    assert stop == Stop("pay failed 5 times in a row; the last error: E5")


async def test_a_row_of_the_turn_leaves_nothing_in_the_session() -> None:
    plugin, turn = Recovery(), FakeTurn("recovery")

    await play(plugin, turn, failed(1))

    assert turn.memory == {}


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"on_error": "explode"}, "Recovery.on_error"),
        ({"prompt": " "}, "Recovery.prompt"),
        ({"prompt": 3}, "Recovery.prompt"),
        ({"grace": "\x00"}, "Recovery.grace"),
        ({"breaker": 0}, "Recovery.breaker"),
        ({"breaker": True}, "Recovery.breaker"),
        ({"breaker": 1.5}, "Recovery.breaker"),
        ({"scope": "world"}, "Recovery.scope"),
        ({"per_tool": ["pay"]}, "Recovery.per_tool"),
        ({"per_tool": {"not a name": ToolRecovery()}}, "Recovery.per_tool"),
        ({"per_tool": {"pay": "stop"}}, "Recovery.per_tool[pay]"),
        ({"per_tool": {"pay": ToolRecovery(breaker=-1)}}, "Recovery.per_tool[pay].breaker"),
        (
            {"per_tool": {"pay": ToolRecovery(on_error="x")}},  # type: ignore[arg-type]
            "Recovery.per_tool[pay].on_error",
        ),
    ],
)
def test_a_bad_option_is_refused_by_name(given: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Recovery(**given)

    assert refused.value.field == field
    assert str(refused.value).startswith(f"{field}: found ")
