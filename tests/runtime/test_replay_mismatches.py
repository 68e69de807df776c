"""Where code and journal disagree a replay says so, with the place; what a person accepted counts as in recovery."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.runtime import played
from tests.runtime.replays import Kept, check_same, kept, replayed
from tests.scenarios.stage import Stage
from tests.scenarios.test_mismatches import LouderProjector
from windlass.errors import WindlassBug
from windlass.journal import Difference, JournalPage
from windlass.kernel.outcomes import Finished
from windlass.ports import Wait, WaitAnswer, WaitView
from windlass.runtime import turn_start
from windlass.runtime.recovery import Recovery
from windlass.testing import call, calls, say


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage("memory", tmp_path)


@pytest.fixture
def get_louder(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return what puts another release in place: it sends one message more."""
    return lambda: monkeypatch.setattr(turn_start, "_CHAT", LouderProjector())


async def finished_turn(stage: Stage) -> Kept:
    return await played.one(stage, played.agent(call("look"), say("Done.")))


def with_entries(turn: Kept, change: Callable[[Any], Any]) -> tuple[JournalPage, ...]:
    """Return the pages of a journal with each entry changed."""
    return tuple(
        msgspec.structs.replace(page, entries=tuple(change(one) for one in page.entries))
        for page in turn.view.pages
    )


async def parked_turn(stage: Stage) -> Kept:
    async with stage.runtime(played.agent(call("order"))) as rt:
        await rt.session("s").run("Go.", turn_id="t")
        return await kept(rt)


@pytest.mark.parametrize("is_finished", [True, False])
async def test_another_request_is_told_with_its_key_and_where_the_two_part(
    stage: Stage, is_finished: bool, get_louder: Callable[[], None]
) -> None:
    turn = await (finished_turn if is_finished else parked_turn)(stage)
    get_louder()

    found = await replayed(turn)

    assert (found.state, found.at) == ("differs", "s/t/1/0/model_call/1")
    assert (found.effects, found.outcome) == (0, None)
    assert found.is_same is (False if is_finished else None)
    assert [message.role for message in found.messages] == ["user"]
    count, messages = found.diff
    assert count == Difference(
        path="$.request.message_count", change="changed", recorded="1", found="2"
    )
    assert (messages.path, messages.change) == ("$.request.messages", "changed")


async def test_no_wait_is_opened_for_it(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, get_louder: Callable[[], None]
) -> None:
    """A fault that opens one all the same gets no further than the store that is not there."""
    turn = await parked_turn(stage)
    get_louder()
    check = Recovery.check_same

    def as_in_a_drive(self: Recovery, *given: object) -> None:
        self._turn.is_replay = False
        check(self, *given)  # type: ignore[arg-type]  # as it is

    monkeypatch.setattr(Recovery, "check_same", as_in_a_drive)

    with pytest.raises(WindlassBug, match="a replay asked for secret"):
        await replayed(turn)


async def test_what_a_runtime_accepts_is_accepted(
    stage: Stage, get_louder: Callable[[], None]
) -> None:
    turn = await finished_turn(stage)
    get_louder()

    found = await replayed(turn, on_mismatch="accept")

    assert (found.state, found.is_same, found.diff) == ("ends", True, ())


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        (WaitAnswer(status="answered", value="accept"), "goes_on"),
        (WaitAnswer(status="answered", value="no"), "differs"),
        (None, "differs"),
    ],
    ids=["accepted", "said something else", "not answered"],
)
async def test_what_a_person_accepted_is_accepted(
    stage: Stage, get_louder: Callable[[], None], answer: WaitAnswer | None, state: str
) -> None:
    turn = await parked_turn(stage)
    get_louder()
    wait = Wait(key="w_1", kind="mismatch", session_id="s", turn_id="t", title="", created_ms=1)
    asked = WaitView(wait=wait, state="open" if answer is None else "answered", answer=answer)

    found = await replayed(turn.with_view(waits=(*turn.view.waits, asked)))

    assert found.state == state
    assert bool(found.diff) == (state == "differs")


async def test_a_call_that_differs_is_told_though_one_before_it_has_no_result(stage: Stage) -> None:
    """The journal's answer to one call is of another; its sibling waits for a person."""
    both = calls(("pay", {"cents": 5}), ("look", {"at": "a"}))
    async with stage.runtime(played.agent(both)) as rt:
        await rt.session("s").run("Go.", turn_id="t")
        turn = await kept(rt)

    def changed(entry: Any) -> Any:  # noqa: ANN401 - an entry
        if "tool_call/2/1" not in getattr(entry, "key", ""):
            return entry
        command = msgspec.structs.replace(entry.command, args={"at": "b"})
        return msgspec.structs.replace(entry, command=command)

    found = await replayed(turn.with_view(pages=with_entries(turn, changed)))

    assert (found.state, found.at) == ("differs", "s/t/1/0/tool_call/2/1")
    assert [place.path for place in found.diff] == ["$.args.at"]


async def test_other_tools_prompts_and_limits_make_no_difference(stage: Stage) -> None:
    """A turn is driven from its start record."""
    turn = await finished_turn(stage)
    other = played.agent(instructions="Be rude.", tools=[played.send])
    async with stage.runtime(other) as rt:
        program = rt._programs["a"]

    found = await check_same(turn._replace(program=program))

    assert found.outcome == Finished(text="Done.")


@pytest.mark.parametrize("name", ["tools_of_a_provider", "tools_that_are_found", "every_contract"])
async def test_providers_and_deferred_tools_that_came_or_went_make_no_difference(
    stage: Stage, name: str
) -> None:
    """Whether a turn asks for its environment is numbered into its journal."""
    turn = await played.PLAYS[name](stage)
    programs = []
    for tools in ([played.look], [played.look, played.Shelf()], [played.look, played.convert]):
        async with stage.runtime(played.agent(tools=tools)) as rt:
            programs.append(rt._programs["a"])

    for program in programs:
        await check_same(turn._replace(program=program))


async def test_a_finished_turn_with_digests_of_an_earlier_format_is_compared_by_its_commands(
    stage: Stage,
) -> None:
    turn = await finished_turn(stage)

    def old(entry: Any) -> Any:  # noqa: ANN401 - an entry
        return (
            msgspec.structs.replace(entry, digest="0" * 64) if hasattr(entry, "digest") else entry
        )

    await check_same(turn.with_view(pages=with_entries(turn, old)))


# ---------------------------------------------------------------------- the way through the turn


@pytest.mark.parametrize(
    ("syncs", "at", "told"),
    [
        (
            True,
            "s/t/1/0/sync_environment/1",
            "$.effect: recorded model_call of iteration 0, now sync_environment of iteration 0",
        ),
        (None, "", ""),
    ],
)
async def test_an_effect_more_than_the_journal_has_is_told(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, syncs: bool | None, at: str, told: str
) -> None:
    turn = await finished_turn(stage)
    monkeypatch.setattr(Recovery, "syncs", syncs)

    found = await replayed(turn)

    assert (found.state, found.at) == ("differs" if syncs else "ends", at)
    assert ", ".join(map(str, found.diff)) == told


async def test_an_effect_less_than_the_journal_has_is_told(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = await played.PLAYS["tools_of_a_provider"](stage)
    monkeypatch.setattr(Recovery, "syncs", False)

    found = await replayed(turn)

    assert (found.state, found.at) == ("differs", "s/t/1/0/model_call/1")
    assert [str(place) for place in found.diff] == [
        "$.effect: recorded sync_environment of iteration 0, now model_call of iteration 0"
    ]


async def test_a_call_that_the_journal_has_passed_without_it_is_told(stage: Stage) -> None:
    """Of a passed effect only checkpoints and environments may have left nothing behind."""
    turn = await played.PLAYS["every_contract"](stage)

    def is_left(entry: Any) -> bool:  # noqa: ANN401 - an entry
        return not getattr(entry, "key", "").endswith("/model_call/4")

    pages = tuple(
        msgspec.structs.replace(page, entries=tuple(filter(is_left, page.entries)))
        for page in turn.view.pages
    )

    found = await replayed(turn.with_view(pages=pages))

    assert (found.state, found.at, found.effects) == ("differs", "s/t/1/1/model_call/4", 2)
    assert [str(place) for place in found.diff] == ["$.effect: added (model_call of iteration 1)"]
