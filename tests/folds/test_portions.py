"""Whatever a journal holds, and in whatever portions it is read: facts are only added, and they are the same."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.folds.rows import (
    awaited,
    built,
    calls,
    ended,
    entered,
    intent,
    looked,
    page,
    presented,
    reply,
    result,
    started,
    view,
    wait,
)
from tests.folds.told import DONE
from tests.folds.witness import fold_in_portions, lines
from windlass.folds import TurnFold, facts_of
from windlass.journal import Entry
from windlass.kernel import Chain, ModelFailure, ModelReply, Outcome, Stopped, ToolOutcome
from windlass.kernel.responses import Failure
from windlass.ports import TurnView

OUTCOMES: st.SearchStrategy[Outcome] = st.sampled_from(
    (DONE, Stopped(reason="cancelled", detail=""))
)
REPLIES: st.SearchStrategy[ModelReply | ModelFailure] = st.sampled_from(
    (
        ModelReply(text="Done."),
        ModelReply(text="Cut", terminal="output_limit"),
        ModelReply(),
        calls("work"),
        calls("work", "also", text="I will."),
        calls("no name", "work"),
        ModelFailure(message="Down."),
    )
)
EFFECTS = st.integers(1, 8)
NUMBERS = st.integers(0, 1)
HIDDEN = st.none() | st.just(ToolOutcome(value="hidden"))
ENTRIES: st.SearchStrategy[Entry] = st.one_of(
    st.builds(reply, EFFECTS, REPLIES, streamed=st.booleans()),
    st.builds(looked, EFFECTS, st.none() | st.just(ModelReply(text="hidden"))),
    st.builds(intent, EFFECTS, NUMBERS),
    st.builds(result, EFFECTS, NUMBERS),
    st.builds(presented, EFFECTS, NUMBERS, outcome=HIDDEN),
    st.builds(entered, EFFECTS, st.just("Hurry."), taken=st.sampled_from(((), ("i1",)))),
    st.builds(built, EFFECTS, st.none() | st.just(Failure(message="No."))),
    st.builds(awaited, st.just("2.0.approval"), st.sampled_from(("w0", "w1", "w9"))),
)
LOOKS = st.sampled_from(((), ("model",), ("tools",), ("model", "tools")))


@st.composite
def orderly(draw: st.DrawFn) -> list[Entry]:
    """Return entries as a worker writes them: iteration by iteration, with what plugins looked at."""
    looks, syncs = draw(LOOKS), draw(st.booleans())
    entries: list[Entry] = [started(looks=looks)]
    effect = 1 + syncs
    for _ in range(draw(st.integers(0, 4))):
        n_calls = draw(st.integers(1, 2))
        entries.append(reply(effect, calls(*("work", "also")[:n_calls])))
        if "model" in looks:
            entries.append(looked(effect))
        for number in draw(st.permutations(range(n_calls))):
            entries.append(result(effect + 1, number))
            if "tools" in looks:
                entries.append(presented(effect + 1, number, outcome=draw(HIDDEN)))
        if draw(st.booleans()):
            entries.append(entered(effect + 2, "Hurry.", taken=("i1",)))
        effect += 3 + syncs
    entries.append(reply(effect, draw(REPLIES)))
    return entries


@st.composite
def turns(draw: st.DrawFn) -> TurnView:
    """Return a turn in any portions; its entries may be in any disorder, which no worker leaves behind."""
    chaos = st.lists(ENTRIES, max_size=14).map(lambda rows: [started(), *rows])
    entries = draw(orderly() | chaos)
    cuts = sorted(draw(st.sets(st.integers(1, len(entries)), max_size=5)) | {0, len(entries)})
    pages = [page(*entries[a:b]) for a, b in pairwise(cuts)]
    behind = sorted(draw(st.lists(st.integers(0, len(pages)), max_size=3)))
    waits = tuple(wait(f"w{number}", at) for number, at in enumerate(behind))
    turn = view(*pages, waits=waits)
    return ended(turn, draw(OUTCOMES)) if draw(st.booleans()) else turn


@given(turns())
def test_rows_fold_the_same_in_any_portions(turn: TurnView) -> None:
    whole = TurnFold.of(turn)
    portions = fold_in_portions(turn, Chain())

    assert lines(portions.facts) == lines(whole.facts)
    assert portions.messages == whole.messages


@given(turns(), st.data())
def test_a_part_of_a_turn_tells_the_first_of_its_facts(turn: TurnView, data: st.DataObject) -> None:
    n_pages = data.draw(st.integers(0, len(turn.pages)))
    n_waits = data.draw(st.integers(0, len(turn.waits)))
    whole = lines(facts_of(turn))
    part = TurnFold.of(turn, pages=n_pages, waits=n_waits)
    before = [one for one in turn.waits[:n_waits] if one.page < n_pages]
    is_place = len(before) == sum(one.page < n_pages for one in turn.waits)

    if is_place:  # of the waits before its last page none is left out
        assert lines(part.facts) == whole[: len(part.facts)]
        part.absorb(turn)
        assert lines(part.facts) == whole


@given(turns())
def test_no_fact_is_told_twice_and_each_has_a_place(turn: TurnView) -> None:
    told = facts_of(turn)

    assert not any(one.preview for one in told)
    assert len({one.id for one in told}) == len(told)
    assert all(one.id.startswith("e_74f1b1e01f63c5f0.") for one in told)


@given(turns())
def test_a_turn_that_has_ended_tells_its_end_last_and_once(turn: TurnView) -> None:
    told: list[Any] = list(facts_of(ended(turn, DONE)))
    unfinished = msgspec.structs.replace(turn, outcome=None, page=None, receipt=None)

    assert [one for one in told if hasattr(one, "outcome") and one.id.endswith(".end")] == told[-1:]
    assert lines(facts_of(unfinished)) == lines(told)[: len(facts_of(unfinished))]
