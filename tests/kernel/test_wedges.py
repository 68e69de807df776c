"""Sessions that would wedge, one by one: what the random ones in test_no_wedge.py met, written out."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import pytest

from windlass.errors import InvalidInput
from windlass.kernel import (
    CallModel,
    CheckpointDelivery,
    CompletedToolCall,
    ConversationRecord,
    Environment,
    EnvironmentSynced,
    InjectedMessage,
    Message,
    ModelMessage,
    ModelReply,
    ModelRequest,
    Reasoning,
    StandardDriver,
    Text,
    ToolCall,
    ToolOutcome,
    ToolSpec,
    ToolsReturned,
    TurnConfig,
    TurnIds,
    TurnMachine,
    TurnSnapshot,
    canonical,
)
from windlass.testing import Answers, Broken, broken_rules, drive, say

ADD = ToolSpec(name="add")
ASKED = Message(id="u0", role="user", parts=(Text(text="Add."),))
SIGNED = Reasoning(text="Hm.", replay={"signature": "s"})


def config(turn_id: str = "t0", max_iterations: int | None = None) -> TurnConfig:
    return TurnConfig(
        driver=StandardDriver(),
        model="m",
        session_id="s",
        turn_id=turn_id,
        tools=(ADD,),
        max_iterations=max_iterations,
    )


def call(call_id: str = "c1", name: str = "add", raw: str = "{}") -> ToolCall:
    return ToolCall(call_id=call_id, name=name, raw=raw)


def reply(*parts: Text | Reasoning | ToolCall, terminal: str = "tool_use") -> ModelReply:
    return ModelReply(parts=parts, terminal=terminal)


def broken_in_session(
    replies: Iterable[ModelReply],
    checkpoints: Iterable[CheckpointDelivery] = (),
    max_iterations: int | None = None,
) -> list[Broken]:
    """Return the rules broken in a turn with these replies, and in the first request after it."""
    said = iter(replies)

    def model(_request: ModelRequest) -> ModelReply:
        return next(said, say("Done."))

    answers = Answers(model=model, tools={"add": lambda: 2}, checkpoints=checkpoints)
    first = drive(TurnMachine(config("t0", max_iterations), [ASKED]), answers)
    stored = [
        record.message for record in first.machine.records if isinstance(record, ConversationRecord)
    ]
    words = Message(id="u1", role="user", parts=(Text(text="Go on."),))
    second = drive(TurnMachine(config("t1"), [ASKED, *stored, words]), Answers(model=model))
    return [
        broken
        for request in (*first.requests, *second.requests)
        for broken in broken_rules(request)
    ]


@pytest.mark.parametrize("call_id", ["functions.add:0", "c" * 41, "c" * 65, "a|b", "a@b"])
def test_a_call_id_that_only_its_provider_takes_is_replaced(call_id: str) -> None:
    assert broken_in_session([reply(call(call_id))]) == []


def test_a_call_without_id_gets_one_that_no_other_call_has() -> None:
    # A server that lets the model write ids gets back what the model saw, counted on.
    guessed = TurnIds("s", "t0").call(0, 1)

    assert broken_in_session([reply(call(guessed), call("", raw="cut o"))]) == []


def test_words_after_a_call_do_not_part_it_from_its_result() -> None:
    assert broken_in_session([reply(call(), Text(text="Wait."))]) == []


def test_thoughts_at_the_end_of_a_reply_are_not_sent_back_alone() -> None:
    assert broken_in_session([reply(Text(text="2"), SIGNED, terminal="output_limit")]) == []
    assert broken_in_session([reply(call(), SIGNED)]) == []


@pytest.mark.parametrize("n_calls", [128, 129, 257, 385])
def test_no_number_of_calls_is_too_many_to_go_on(n_calls: int) -> None:
    calls = [call(f"c{at}") for at in range(n_calls)]

    assert broken_in_session([reply(*calls)]) == []


def test_no_number_of_parts_is_too_many_to_go_on() -> None:
    thoughts_and_words: list[Text | Reasoning] = [SIGNED, Text(text="and ")] * 200

    assert broken_in_session([reply(*thoughts_and_words, terminal="stop")]) == []


def test_the_last_iteration_after_the_limit_message_may_call_tools() -> None:
    more = InjectedMessage(role="user", parts=(Text(text="And this?"),))

    assert (
        broken_in_session(
            [say("2"), reply(call())],
            checkpoints=[CheckpointDelivery(messages=(more,))],
            max_iterations=1,
        )
        == []
    )


def test_a_result_answers_under_the_name_that_was_called() -> None:
    machine = TurnMachine(config(), [ASKED])
    done = CompletedToolCall(call_id="c1", name="sum of two", outcome=ToolOutcome(value=2))
    out = drive(machine, Answers(model=lambda _: reply(call())), until=is_tools).effects[-1]
    machine.respond(ToolsReturned(id=out.id, results=(done,)))  # type: ignore[union-attr]

    asked = drive(machine, Answers(), until=lambda effect: isinstance(effect, CallModel))

    assert broken_rules(asked.requests[-1]) == []


def is_tools(effect: object) -> bool:
    return type(effect).__name__ == "CallTools"


def test_who_adds_to_a_request_adds_to_that_request_alone() -> None:
    added = ModelMessage(role="user", parts=(Text(text="From a plugin."),))

    def model(request: ModelRequest) -> ModelReply:
        request.messages.append(added)  # type: ignore[attr-defined] # a chain, in truth
        return reply(call()) if len(request.messages) == 1 else say("Done.")

    driven = drive(TurnMachine(config(), [ASKED]), Answers(model=model, tools={"add": lambda: 2}))

    assert [broken_rules(request) for request in driven.requests] == [[], []]
    assert [added in request.messages for request in driven.requests] == [False, False]


def test_a_turn_survives_an_environment_that_cannot_be() -> None:
    settings = TurnConfig(
        driver=StandardDriver(), model="m", session_id="s", turn_id="t0", sync_environment=True
    )
    machine = TurnMachine(settings, [ASKED])
    drive(machine, Answers(), until=lambda effect: True)

    with suppress(InvalidInput):
        machine.respond(EnvironmentSynced(id=1, result=Environment(tools=(ADD, ADD))))

    kept = canonical.encode(machine.snapshot())
    again = TurnMachine.restore(settings, canonical.decode(kept, TurnSnapshot))
    assert again.state == machine.state
