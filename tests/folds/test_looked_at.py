"""What plugins were to look at is told once it is recorded as looked at, as they left it."""

from __future__ import annotations

import pytest

from tests.folds.rows import (
    calls,
    ended,
    looked,
    page,
    presented,
    reply,
    result,
    started,
    view,
)
from tests.folds.told import WORK, end, replied, returned, used
from windlass.folds import TurnFold, facts_of
from windlass.journal import JournalPage, PluginVersion
from windlass.kernel import ModelFailure, ModelReply, Stopped, ToolFinished, ToolOutcome

SECRET = ModelReply(text="The key is 4711.")
HIDDEN = ModelReply(text="The key is hidden.")
BOTH = {"looks": ("model", "tools")}
CANCELLED = Stopped(reason="cancelled", detail="")
GUARDED = {"plugins": (PluginVersion(name="guard"),)}


def old(*entries: object) -> JournalPage:
    """Return a page of the first format, in which only what plugins changed is recorded."""
    return page(*entries, written_in=1)  # type: ignore[arg-type]  # entries


# ---------------------------------------------------------------------- replies


def test_a_reply_that_plugins_look_at_is_not_told_yet() -> None:
    assert facts_of(view(page(started(looks=("model",)), reply(1, SECRET)))) == ()


def test_a_reply_that_plugins_left_as_it_was() -> None:
    turn = view(page(started(looks=("model",)), reply(1)), page(looked(1)))

    assert facts_of(turn) == (used(1, 1), replied(3, 1))


@pytest.mark.parametrize("streamed", [False, True])
def test_a_reply_that_plugins_changed_is_told_as_they_left_it(streamed: bool) -> None:
    """Its words were taken back, so the machine says them again: number 2."""
    rows = page(reply(1, SECRET, streamed=streamed)), page(looked(1, HIDDEN))
    turn = view(page(started(looks=("model",))), *rows)

    assert facts_of(turn) == (used(1, 1), replied(3, 1, "The key is hidden."))


def test_a_reply_whose_words_stayed_is_still_shown() -> None:
    rows = page(reply(1, streamed=True), looked(1, ModelReply(text="Done.")))
    turn = view(page(started(looks=("model",))), rows)

    assert facts_of(turn) == (used(1, 1), replied(2, 1))


def test_a_call_that_failed_is_looked_at_by_nobody() -> None:
    turn = view(page(started(looks=("model",)), reply(1, ModelFailure(message="Down."))))

    assert len(facts_of(turn)) == 1


def test_a_reply_over_which_a_plugin_ended_the_turn_is_never_told() -> None:
    stopped = Stopped(reason="limit", detail="Enough.")
    turn = view(page(started(looks=("model",)), reply(1, SECRET)))

    assert facts_of(ended(turn, stopped)) == (end(stopped),)


# ---------------------------------------------------------------------- results


def test_a_result_that_plugins_look_at_is_not_told_yet() -> None:
    turn = view(page(started(looks=("tools",)), reply(1, calls("work")), result(2, 0, "4711")))

    assert facts_of(turn) == (used(1, 1), replied(2, 1, "", WORK))


@pytest.mark.parametrize(
    ("left", "told"),
    [
        (presented(2), ToolOutcome(value="4711")),
        (presented(2, outcome=ToolOutcome(value="hidden")), ToolOutcome(value="hidden")),
    ],
)
def test_a_result_is_told_as_plugins_left_it(left: object, told: ToolOutcome) -> None:
    rows = page(reply(1, calls("work")), result(2, 0, "4711", duration_ms=3)), page(left)  # type: ignore[arg-type]  # an entry
    turn = view(page(started(looks=("tools",))), *rows)

    assert facts_of(turn)[2:] == (returned(3, "2.0", outcome=told, duration_ms=3),)


def test_a_turn_without_looks_waits_for_none() -> None:
    turn = view(page(started(), reply(1, calls("work")), result(2)))

    assert facts_of(turn)[2:] == (returned(3, "2.0"),)


def test_a_result_that_nobody_looked_at_before_the_end_is_overtaken() -> None:
    turn = view(page(started(**BOTH), reply(1, calls("work")), looked(1), result(2, 0, "4711")))

    overtaken, last = facts_of(ended(turn, CANCELLED))[2:]
    assert isinstance(overtaken, ToolFinished)
    assert overtaken.outcome.status == "cancelled"
    assert "4711" not in str(overtaken)
    assert last == end(CANCELLED)


# ---------------------------------------------------------------------- journals of the first format


def test_of_an_old_journal_what_plugins_changed_is_told_as_they_left_it() -> None:
    turn = view(
        old(started(), reply(1, calls("work", text="4711"))),
        old(looked(1, calls("work", text="hidden")), result(2, 0, "4711")),
        old(presented(2, outcome=ToolOutcome(value="hidden"))),
        old(reply(4)),
    )

    assert facts_of(turn) == (
        used(1, 1),
        replied(3, 1, "hidden", WORK),
        returned(4, "2.0", "hidden"),
        used(6, 4, iteration=1),
        replied(8, 4, iteration=1),
    )


def test_of_an_old_journal_a_prefix_tells_no_more_than_the_whole() -> None:
    turn = view(old(started(), reply(1, SECRET)), old(looked(1, HIDDEN)))

    assert TurnFold.of(turn, pages=1).facts == []
    assert TurnFold.of(turn, pages=2).facts == list(facts_of(turn))


@pytest.mark.parametrize(("plugins", "status"), [({}, "ok"), (GUARDED, "cancelled")])
def test_of_an_old_batch_that_was_cut_off_nothing_is_told_that_plugins_may_not_have_seen(
    plugins: dict[str, object], status: str
) -> None:
    turn = view(old(started(**plugins), reply(1, calls("work", "also")), result(2, 0, "4711")))

    first = facts_of(ended(turn, CANCELLED))[2]
    assert isinstance(first, ToolFinished)
    assert (first.call_id, first.outcome.status) == ("c0", status)
