"""The demo's model: rules that read the request, from whatever state it shows."""

from __future__ import annotations

import pytest

from tests.models.demo_requests import QUESTION, TRIP, ask, called, request, spec
from windlass.kernel import (
    Message,
    ModelMessage,
    ModelReply,
    ModelRequest,
    StandardDriver,
    Text,
    ToolOutcome,
    TurnConfig,
    TurnMachine,
    outcomes,
)
from windlass.models.demo import DemoModel
from windlass.ports.model import ModelEvent, TextChunk
from windlass.testing import Answers, broken_rules, drive

OFFER = '{"cents":11800,"hotel":"Casa do Rio"}'
LOOKED_UP = ("look_up", OFFER)
BOOKED = ("book", '{"confirmation":"RIO-2N"}')
TOLD = ("notify", "sent")
PAID = ("pay", '{"receipt":"P-23600"}')


@pytest.mark.parametrize(
    ("results", "name", "args"),
    [
        ([], "look_up", {"city": "Lisbon"}),
        ([LOOKED_UP], "book", {"hotel": "Casa do Rio", "nights": 2}),
        ([LOOKED_UP, BOOKED], "notify", {"text": "Booked: 2 nights at Casa do Rio in Lisbon."}),
        ([LOOKED_UP, BOOKED, TOLD], "pay", {"cents": 23600}),
    ],
)
async def test_a_trip_goes_on_from_whatever_the_request_shows(
    results: list[tuple[str, ...]], name: str, args: dict[str, object]
) -> None:
    call = await called(request(QUESTION, *results))

    assert (call.name, call.args) == (name, args)
    assert call.call_id == f"call_{len(results)}_0"


async def test_a_trip_ends_with_what_was_done() -> None:
    reply = await ask(request(QUESTION, LOOKED_UP, BOOKED, TOLD, PAID))

    assert reply.text == (
        "Booked: 2 nights at Casa do Rio in Lisbon for 236 euros; "
        'book answered {"confirmation":"RIO-2N"}. '
        'Pay answered {"receipt":"P-23600"}. Notify answered sent.'
    )
    assert reply.terminal == "stop"


async def test_tools_that_are_not_offered_are_not_called() -> None:
    reply = await ask(request(QUESTION, LOOKED_UP, BOOKED, tools=("look_up", "book")))

    assert reply.text == (
        "Booked: 2 nights at Casa do Rio in Lisbon for 236 euros; "
        'book answered {"confirmation":"RIO-2N"}.'
    )


async def test_an_unknown_message_is_told_and_not_sent_again() -> None:
    results = [LOOKED_UP, BOOKED, ("notify", "(unknown)", "unknown"), PAID]

    reply = await ask(request(QUESTION, *results))

    assert reply.text.endswith(
        "Notify was started; whether it finished is unknown, and it was not run again."
    )


async def test_a_refused_payment_is_told() -> None:
    results = [LOOKED_UP, BOOKED, TOLD, ("pay", "too dear", "denied")]

    reply = await ask(request(QUESTION, *results))

    assert "Pay was refused (too dear)." in reply.text


@pytest.mark.parametrize(
    ("said", "results", "words"),
    [
        pytest.param(
            "Book 3 nights in Lisbon for at most 300 euros.", [LOOKED_UP],
            "3 nights at Casa do Rio in Lisbon would cost 354 euros, more than your 300 euros. "
            "Nothing is booked.", id="too-dear",
        ),
        pytest.param(
            QUESTION, [("look_up", "no such city", "error")],
            "I found no hotel in Lisbon: look_up ended as error (no such city).", id="not-found",
        ),
        pytest.param(
            QUESTION, [("look_up", "[1]")],
            "I found no hotel in Lisbon: look_up answered [1].", id="not-understood",
        ),
        pytest.param(
            QUESTION, [("look_up", '{"cents":"?","hotel":"x"}')],
            'I found no hotel in Lisbon: look_up answered {"cents":"?","hotel":"x"}.', id="no-price",
        ),
        pytest.param(
            QUESTION, [LOOKED_UP, ("book", "full", "error")],
            "2 nights at Casa do Rio in Lisbon is what I wanted: book ended as error (full).",
            id="not-booked",
        ),
    ],
)  # fmt: skip
async def test_a_trip_that_cannot_be_says_why(
    said: str, results: list[tuple[str, ...]], words: str
) -> None:
    assert (await ask(request(said, *results))).text == words


async def test_results_of_an_earlier_turn_are_not_taken_for_this_one() -> None:
    before = request(QUESTION, LOOKED_UP, BOOKED, TOLD, PAID)
    again = ModelMessage(role="user", parts=(Text(text="Book 1 night in Vienna."),))
    done = ModelMessage(role="assistant", parts=(Text(text="Booked."),))
    asked = ModelRequest(model="demo", messages=[*before.messages, done, again], tools=before.tools)

    call = await called(asked)

    assert (call.name, call.args, call.call_id) == ("look_up", {"city": "Vienna"}, "call_5_0")


async def test_the_same_request_gets_the_same_reply() -> None:
    asked = request(QUESTION, LOOKED_UP)

    assert await ask(asked) == await ask(asked)


async def test_without_tools_it_says_what_it_is_and_what_it_can_do() -> None:
    reply = await ask(request("Tell me a joke.", tools=(), system="Be kind."))

    assert reply.text == (
        'I am the demo model: a few rules, no language model. I have no rule for "Tell me a joke.". '
        "I can do sums, such as 17 % of 2400. I am offered no tools."
    )


async def test_it_describes_itself_once_in_a_conversation() -> None:
    before = request("Hello", tools=("add",))
    said = ModelMessage(role="assistant", parts=(Text(text="I am the demo model."),))
    again = ModelMessage(role="user", parts=(Text(text="Hello?"),))
    asked = ModelRequest(model="demo", messages=[*before.messages, said, again], tools=before.tools)

    reply = await ask(asked)

    assert reply.text == 'I have no rule for "Hello?". Try 17 % of 2400, or add {}.'


async def test_where_no_tool_may_be_called_none_is() -> None:
    asked = ModelRequest(
        model="demo",
        messages=request().messages,
        tools=(spec("look_up"), spec("book")),
        tool_choice="none",
    )

    assert "I am offered no tools." in (await ask(asked)).text


async def test_a_tool_can_be_called_by_hand() -> None:
    call = await called(request('add {"a": 1, "b": [2, 3]}', tools=("add",)))

    assert (call.name, call.args) == ("add", {"a": 1, "b": [2, 3]})


async def test_what_was_called_by_hand_is_told() -> None:
    reply = await ask(request('add {"a": 1}', ("add", "3"), tools=("add",)))

    assert reply.text == "add answered 3."


async def test_a_result_longer_than_a_screen_is_cut() -> None:
    reply = await ask(request('add {"a": 1}', ("add", "x" * 5_000), tools=("add",)))

    assert reply.text == f"add answered {'x' * 599}…."


@pytest.mark.parametrize("args", ["{a: 1}", '{"a": "\\u0000"}'])
async def test_arguments_that_cannot_be_read_are_told(args: str) -> None:
    reply = await ask(request(f"add {args}", tools=("add",)))

    assert "The arguments of add cannot be read:" in reply.text


async def test_a_tool_that_is_not_offered_is_not_called_by_hand() -> None:
    reply = await ask(request('rm {"path": "x"}', tools=("add",)))

    assert reply.parts == (Text(text=reply.text),)


async def test_long_words_are_quoted_in_short() -> None:
    reply = await ask(request("word " * 50, tools=()))

    assert f'I have no rule for "{"word " * 11}word…".' in reply.text


async def test_its_words_are_shown_as_they_come() -> None:
    shown: list[ModelEvent] = []

    reply = await DemoModel().complete(request("Hello", tools=()), shown.append)

    texts = [event.text for event in shown if isinstance(event, TextChunk)]
    assert len(texts) > 5
    assert "".join(texts) == reply.text


async def test_it_counts_words_as_tokens() -> None:
    reply = await ask(request("one two three", tools=(), system="four five"))

    assert reply.usage.input_tokens == 5
    assert reply.usage.output_tokens == len(reply.text.split())


async def test_even_an_empty_conversation_is_answered() -> None:
    reply = await ask(ModelRequest(model="demo", messages=[]))

    assert "I have no rule for a message without text." in reply.text


def test_its_requests_and_replies_make_a_whole_turn() -> None:
    """On the bare machine: each reply leads to a request that every provider would take."""
    config = TurnConfig(
        driver=StandardDriver(),
        model="demo",
        session_id="s",
        turn_id="t",
        system_prompt="Book what the user asks for.",
        tools=tuple(map(spec, TRIP)),
    )
    answers = Answers(
        model=drain,
        tools={
            "look_up": lambda city: {"hotel": f"{city} Inn", "cents": 9950},
            "book": lambda hotel, nights: "yes",
            "notify": lambda text: ToolOutcome(status="unknown"),
            "pay": lambda cents: cents,
        },
    )
    question = Message(id="m1", role="user", parts=(Text(text=QUESTION),))

    driven = drive(TurnMachine(config, (question,)), answers)

    assert driven.outcome == outcomes.Finished(
        text="Booked: 2 nights at Lisbon Inn in Lisbon for 199 euros; book answered yes. "
        "Pay answered 19900. "
        "Notify was started; whether it finished is unknown, and it was not run again."
    )
    assert [broken_rules(asked) for asked in driven.requests] == [[]] * 5


def drain(asked: ModelRequest) -> ModelReply:
    """Run the model's coroutine to its end; it waits for nothing."""
    running = DemoModel().complete(asked, lambda _event: None)
    try:
        running.send(None)
    except StopIteration as ended:
        reply = ended.value
        assert isinstance(reply, ModelReply)
        return reply
    raise AssertionError("the demo model waited for something")
