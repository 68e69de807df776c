"""Rows that are written by hand fold to facts that are written by hand: model calls, tool calls, environments."""

from __future__ import annotations

import pytest

from tests.folds.rows import (
    built,
    calls,
    decided,
    entered,
    intent,
    page,
    reply,
    result,
    said,
    started,
    view,
)
from tests.folds.told import ALSO, WORK, also, fact, replied, returned, used
from windlass.folds import facts_of
from windlass.folds.answers import Answers
from windlass.journal import (
    Claimed,
    DriveBegan,
    DriveEnded,
    ModelCallCommand,
    Released,
    RequestSpec,
)
from windlass.kernel import (
    Chain,
    Error,
    Message,
    ModelFailure,
    ModelFinished,
    ModelReply,
    RunCode,
    Text,
    ToolCall,
    ToolFinished,
    ToolOutcome,
    ToolResult,
    Usage,
    UsageReported,
)
from windlass.kernel.responses import Environment, Failure

# ---------------------------------------------------------------------- replies


def test_a_reply_is_told_with_what_it_used() -> None:
    spent = Usage(input_tokens=3, output_tokens=2)
    turn = view(page(started(), reply(1, ModelReply(text="Done.", usage=spent))))

    # The machine also said that it asks, 0, and the words, 2: previews.
    report = fact(UsageReported, 1, 1, iteration=0, usage=spent, cumulative=spent)
    assert facts_of(turn) == (report, replied(3, 1))


def test_words_that_were_streamed_are_not_said_again_and_take_no_number() -> None:
    turn = view(page(started(), reply(1, streamed=True)))

    assert facts_of(turn) == (used(1, 1), replied(2, 1))


def test_a_call_that_failed_is_an_error() -> None:
    failed = ModelFailure(message="It is down.", code="unavailable")
    turn = view(page(started(), reply(1, failed)))

    terminal = "provider_error"
    error = fact(Error, 1, 1, message="It is down.", code="unavailable", terminal=terminal)
    assert facts_of(turn) == (error,)


def test_nothing_is_said_before_there_is_a_reply() -> None:
    claim = Claimed(
        key="s/t/1/0/model_call/1",
        command=ModelCallCommand(request=RequestSpec(model="m", messages="ab", message_count=1)),
    )
    drive, left = DriveBegan(worker="w", at_ms=1), DriveEnded(at_ms=2, why="left")

    assert facts_of(view()) == ()
    assert facts_of(view(page(started(), drive, claim), page(Released(key=claim.key), left))) == ()


def test_a_journal_of_a_driver_that_is_not_known_tells_nothing_of_its_effects() -> None:
    assert facts_of(view(page(started(driver="code"), reply(1)))) == ()


def test_a_journal_answers_nothing_that_no_driver_asks_for() -> None:
    assert Answers().to(RunCode(id=1, language="python", code="1")) is None


# ---------------------------------------------------------------------- calls


def test_calls_are_told_together_in_their_order_when_the_last_has_its_result() -> None:
    asked = (used(1, 1), replied(2, 1, "", WORK, ALSO))
    late = page(intent(2, 0), result(2, 0, "a", claimed=True))
    early = page(
        started(),
        reply(1, calls("work", "also")),
        intent(2, 1, name="also"),
        result(2, 1, "b", claimed=True, duration_ms=7),
    )

    assert facts_of(view(early)) == asked
    assert facts_of(view(early, late)) == (
        *asked,
        returned(3, "2.0", "a"),
        also(4, "2.1", "b", duration_ms=7),
    )


def test_a_second_iteration_has_the_next_numbers() -> None:
    turn = view(page(started(), reply(1, calls("work")), result(2), reply(4)))

    assert facts_of(turn) == (
        used(1, 1),
        replied(2, 1, "", WORK),
        returned(3, "2.0"),
        used(5, 4, iteration=1),
        replied(7, 4, iteration=1),
    )


def test_the_arguments_that_ran_are_told_and_not_those_that_were_asked_for() -> None:
    edited = {"n": 5}
    turn = view(
        page(started(), reply(1, calls("work"))),
        page(decided(2, args=edited), intent(2, args=edited)),
        page(result(2, claimed=True)),
    )

    assert facts_of(turn)[-1] == returned(3, "2.0", args=edited)


def test_a_call_that_was_denied_or_answered_by_a_plugin_never_ran_and_is_told_alike() -> None:
    denied = ToolOutcome(status="denied", value="It is not allowed.")
    turn = view(
        page(started(), reply(1, calls("work", "also"))),
        page(decided(2, verdict="deny", reason="It is not allowed.")),
        page(result(2, 0, "It is not allowed.", status="denied")),
        page(result(2, 1, "as before", name="also", args={"n": 9})),
    )

    assert facts_of(turn)[2:] == (
        returned(3, "2.0", outcome=denied),
        also(4, "2.1", "as before", args={"n": 9}),
    )


def test_an_outcome_that_is_not_known_is_an_outcome() -> None:
    turn = view(
        page(started(), reply(1, calls("work")), intent(2)),
        page(result(2, 0, "?", status="unknown", claimed=True)),
    )

    unknown = ToolOutcome(status="unknown", value="?")
    assert facts_of(turn)[-1] == returned(3, "2.0", outcome=unknown)


def test_a_call_that_is_not_well_formed_is_told_with_its_siblings() -> None:
    torn = ToolCall(call_id="c1", name="also", raw='{"a')
    turn = view(
        page(started(), reply(1, ModelReply(parts=(*calls("work").parts, torn)))), page(result(2))
    )
    asked, first, refused = facts_of(turn)[1:]

    assert asked == replied(2, 1, "", WORK)
    assert first == returned(3, "2.0")
    assert isinstance(refused, ToolFinished)
    assert refused.id.endswith(".4")
    assert refused.correlation_id.endswith(".call.0.c1")
    assert refused.outcome.status == "error"


def test_a_call_id_that_is_in_use_in_the_frame_is_told_as_the_turn_named_it() -> None:
    asking = Message(id="a", role="assistant", parts=(ToolCall(call_id="c0", name="work"),))
    answer = ToolResult(call_id="c0", name="work", content=(Text(text="ok"),))
    history = Chain([said("Before.", "u"), asking, Message(id="r", role="user", parts=(answer,))])
    turn = view(page(started(), reply(1, calls("work"))))

    def named(before: Chain[Message]) -> str:
        told = facts_of(turn, before)[1]
        assert isinstance(told, ModelFinished)
        return told.calls[0].call_id

    assert named(Chain([said("Before.", "u")])) == "c0"
    assert named(history) == "call_74f1b1e01f63c5f0_0_0"


# ---------------------------------------------------------------------- environments and checkpoints


def test_an_environment_that_was_built_first_moves_the_numbers_of_effects() -> None:
    turn = view(page(started(), built(1, Environment(system_prompt="Be kind."))), page(reply(2)))

    assert facts_of(turn) == (used(1, 2), replied(3, 2))


def test_an_environment_that_stayed_as_it_was_has_no_row_and_moves_them_too() -> None:
    turn = view(page(started(), reply(2, calls("work"))), page(result(3)), page(reply(6)))

    assert facts_of(turn) == (
        used(1, 2),
        replied(2, 2, "", WORK),
        returned(3, "3.0"),
        used(5, 6, iteration=1),
        replied(7, 6, iteration=1),
    )


def test_an_environment_that_could_not_be_built_is_an_error() -> None:
    turn = view(page(started(), built(1, Failure(message="No tools.", code="tool_provider"))))

    assert facts_of(turn) == (fact(Error, 0, 1, message="No tools.", code="tool_provider"),)


def test_what_entered_before_completion_gives_another_iteration() -> None:
    turn = view(
        page(started(), reply(1)),
        page(entered(2, "And?", kind="before_completion")),
        page(reply(3, "More.")),
    )

    assert facts_of(turn) == (
        used(1, 1),
        replied(3, 1),
        used(5, 3, iteration=1),
        replied(7, 3, "More.", iteration=1),
    )


@pytest.mark.parametrize(
    ("limits", "n_facts"), [({"max_iterations": 1}, 3), ({"max_iterations": None}, 5), ({}, 5)]
)
def test_the_limit_that_the_turn_began_with_holds(
    limits: dict[str, int | None], n_facts: int
) -> None:
    """A machine at its limit ends by itself, and asks for nothing of what else may be recorded."""
    turn = view(page(started(limits=limits), reply(1, calls("work")), result(2)), page(reply(4)))

    assert len(facts_of(turn)) == n_facts
