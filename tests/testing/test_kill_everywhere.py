"""Killing a scenario everywhere finds the tool that cannot take it, and names the moment."""

from __future__ import annotations

from typing import Any

import pytest

from tests.testing.shops import Bank, careless, refund, refund_once, shop, two_waits
from windlass import Agent, TurnResult
from windlass.errors import ConfigError
from windlass.testing import (
    CrashFound,
    Scenario,
    ScriptedModel,
    crash_points,
    kill_everywhere,
    say,
)

CALL = "careless (call_0_0)"
FIRST = "the turn is accepted, its start, reply 1, intent of careless (call_0_0)"
LAST = "result of careless (call_0_0), reply 2, the turn's end"

# Every moment of a turn with one call: four writes, two model calls, one body.
POINTS = [
    "before write 1: a worker joins",
    "after write 1: a worker joins",
    "before model call 1",
    "after model call 1, before its reply was recorded",
    f"before write 2: {FIRST}",
    f"after write 2: {FIRST}",
    f"before {CALL} began",
    f"after {CALL} returned, before its result was recorded",
    "before model call 2",
    "after model call 2, before its reply was recorded",
    f"before write 3: {LAST}",
    f"after write 3: {LAST}",
    "before write 4: the worker leaves",
    "after write 4: the worker leaves",
]
# From the return of the body until its result is written, a crash runs it once more.
FATAL = POINTS[7:11]


def names(points: tuple[Any, ...]) -> list[str]:
    return [str(point) for point in points]


async def test_the_points_of_a_run_are_all_writes_all_model_calls_and_all_bodies() -> None:
    assert names(await crash_points(shop(careless))) == POINTS


async def test_a_tool_that_ignores_its_key_is_found_and_so_is_the_moment() -> None:
    with pytest.raises(CrashFound) as found:
        await kill_everywhere(shop(careless))

    assert [str(finding.point) for finding in found.value.findings] == FATAL
    assert str(found.value).splitlines()[:4] == [
        "the scenario does not survive a crash at 4 of 14 points",
        "",
        f"- {FATAL[0]}",
        "    the check failed: AssertionError: check returned False",
    ]
    assert names(found.value.report.points) == POINTS


async def test_a_tool_that_uses_its_key_passes_at_every_point() -> None:
    report = await kill_everywhere(shop(refund))

    assert len(report.points) == len(POINTS)
    assert (report.unknown, report.missed, report.left_out) == ((), (), 0)
    assert str(report) == "14 crash points"


async def test_a_body_is_also_killed_wherever_it_waits() -> None:
    inside = [
        "inside two_waits (call_0_0), at its 1st await",
        "inside two_waits (call_0_0), at its 2nd await",
    ]
    points = names(await crash_points(shop(two_waits)))

    assert points[7:9] == inside

    with pytest.raises(CrashFound) as found:
        await kill_everywhere(shop(two_waits), only="inside")

    # Between the first await and the second it has acted.
    assert [str(finding.point) for finding in found.value.findings] == inside[1:]


async def test_a_crash_that_leaves_a_once_tool_unknown_is_told_and_allowed() -> None:
    def at_most_once(bank: Bank, _result: object) -> bool:
        return bank.refunds in ([], ["o1"])

    report = await kill_everywhere(shop(refund_once, check=at_most_once))

    # From the intent until the result is written.
    assert [point.where for point in report.unknown] == [
        "after write 2",
        "before refund_once (call_0_0) began",
        "after refund_once (call_0_0) returned, before its result was recorded",
        "before model call 2",
        "after model call 2, before its reply was recorded",
        "before write 3",
    ]
    assert str(report) == "14 crash points, 6 unknown"


async def test_a_scenario_may_forbid_unknown_outcomes() -> None:
    make = shop(refund_once, check=lambda _bank, _result: True, allow_unknown=False)

    with pytest.raises(CrashFound, match="at 6 of 14 points") as found:
        await kill_everywhere(make)

    assert "it is unknown whether a tool acted" in str(found.value)


async def test_a_check_of_its_own_sees_the_result_and_may_be_awaited() -> None:
    seen: set[str] = set()

    async def check(result: TurnResult[str]) -> None:
        seen.add(result.text)

    make = shop(refund)

    def with_check() -> Scenario:
        made = make()
        return Scenario(agents=made.agents, run=made.run, deps=made.deps, check=check)

    await kill_everywhere(with_check, max_points=2)

    assert seen == {"done"}


async def test_a_program_that_begins_another_turn_when_it_is_run_again_is_found() -> None:
    make = shop(
        refund,
        run=lambda rt: rt.session("s").run("Refund o1."),
        check=lambda bank, _result: True,
    )

    with pytest.raises(CrashFound) as found:
        await kill_everywhere(make, only="after write 3")

    # The turn was committed, and a turn without an id is a new one.
    assert str(found.value).splitlines()[3:] == [
        "    it ended otherwise",
        "    without a crash: (nothing)",
        '    with it:         turn 2 of the session: {"text":"done","type":"finished"}',
    ]


async def test_a_process_that_recovers_can_be_killed_too() -> None:
    report = await kill_everywhere(shop(refund), twice=True, only="after refund")

    # A process that recovers joins, takes over, claims again, runs the body, looks for mail, and goes on.
    first = "after refund (call_0_0) returned, before its result was recorded"
    writes = ["write 1: a worker joins", "write 2: turns are claimed"]
    writes += ["write 3: intent of refund (call_0_0)", "write 4: result of refund (call_0_0)"]
    writes += ["write 5: the inbox is emptied", "write 6: reply 2, the turn's end"]
    writes += ["write 7: the worker leaves"]
    body = ["before refund (call_0_0) began", first]
    model = ["before model call 1", "after model call 1, before its reply was recorded"]
    second = [f"{when} {write}" for write in writes for when in ("before", "after")]
    wanted = [f"{first}; started again, then {one}" for one in (*second, *body, *model)]

    assert names(report.points)[0] == first
    assert sorted(names(report.points)[1:]) == sorted(wanted)


async def test_only_some_points_are_tried_when_that_is_asked_for() -> None:
    with pytest.raises(CrashFound) as found:
        await kill_everywhere(shop(careless), max_points=2)

    assert names(found.value.report.points) == [POINTS[0], POINTS[7]]
    assert str(found.value).startswith(
        "the scenario does not survive a crash at 1 of 2 points (12 left out)\n"
    )


async def test_what_goes_wrong_without_a_crash_is_raised_as_it_is() -> None:
    def never(_bank: Bank, _result: object) -> None:
        raise LookupError("the books are gone")

    with pytest.raises(LookupError, match="the books are gone") as raised:
        await kill_everywhere(shop(refund, check=never))

    assert raised.value.__notes__ == ["(in the run without any crash)"]


async def test_a_scenario_that_never_ends_the_same_way_is_refused() -> None:
    made: list[int] = []

    def make() -> Scenario:
        made.append(1)
        words = f"run {len(made)}"
        return Scenario(
            agents=lambda: Agent("shop", model=ScriptedModel([say(words)])),
            run=lambda rt: rt.session("s").run("Hello.", turn_id="t1"),
        )

    with pytest.raises(AssertionError, match="nothing to compare with") as raised:
        await kill_everywhere(make)

    assert not isinstance(raised.value, CrashFound)
    assert "run 1" in str(raised.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"only": "nowhere"}, "only: no crash point is called 'nowhere'"),
        ({"store": "postgres"}, "store: found 'postgres', wanted memory or sqlite"),
    ],
)
async def test_what_makes_no_sense_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        await kill_everywhere(shop(refund), **options)


async def test_a_scenario_that_all_points_would_share_is_refused() -> None:
    with pytest.raises(ConfigError, match="wanted a function that makes a Scenario"):
        await kill_everywhere(shop(refund)())  # type: ignore[arg-type]  # the mistake


def test_agents_that_would_outlive_their_process_are_refused() -> None:
    agent = Agent("shop", model=ScriptedModel([say("hi")]))

    with pytest.raises(ConfigError, match="wanted a function that makes them"):
        Scenario(agents=agent, run=lambda rt: rt.session("s").run("Hello."))  # type: ignore[arg-type]  # the mistake


def test_settings_that_the_scenario_gives_are_refused() -> None:
    with pytest.raises(ConfigError, match="found store, which the scenario itself gives"):
        shop(refund, settings={"store": "memory:"})()


@pytest.mark.parametrize(("most", "n_first"), [(1, 1), (5, 3), (20, 10)])
async def test_a_bound_on_the_points_bounds_both_crashes_together(most: int, n_first: int) -> None:
    whole = await kill_everywhere(shop(refund), twice=True)
    report = await kill_everywhere(shop(refund), twice=True, max_points=most)

    assert len(whole.points) > 100
    assert len(report.points) == most
    assert sum(point.first is None for point in report.points) == n_first
    assert report.left_out > 0
