"""The demo's model: rules that read the request, from whatever state it shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import pytest

from windlass.kernel import (
    Message,
    ModelMessage,
    ModelReply,
    ModelRequest,
    StandardDriver,
    Text,
    ToolCall,
    ToolOutcome,
    ToolResult,
    ToolSpec,
    TurnConfig,
    TurnMachine,
    outcomes,
)
from windlass.kernel.messages import ToolStatus
from windlass.models.demo import DemoModel
from windlass.ports.model import Model, ModelEvent, TextChunk
from windlass.testing import Answers, broken_rules, drive

QUESTION = "Book 2 nights in Lisbon for at most 300 euros."
OFFER = '{"cents":11800,"hotel":"Casa do Rio"}'
STATUSES: dict[str, ToolStatus] = {each: each for each in get_args(ToolStatus)}
TRIP = ("look_up", "book", "notify", "pay")


def spec(name: str) -> ToolSpec:
    return ToolSpec(name=name, description=name, parameters={"type": "object"})


def request(
    said: str = QUESTION,
    *results: tuple[str, ...],
    tools: tuple[str, ...] = TRIP,
    system: str = "",
) -> ModelRequest:
    """A request with what the user said and the results that came since, each of a call of its own."""
    messages = [ModelMessage(role="system", parts=(Text(text=system),))] if system else []
    messages.append(ModelMessage(role="user", parts=(Text(text=said),)))
    for at, (name, text, *status) in enumerate(results):
        call = ToolCall(call_id=f"call_{at}_0", name=name)
        messages.append(ModelMessage(role="assistant", parts=(call,)))
        answer = ToolResult(
            call_id=call.call_id,
            name=name,
            content=(Text(text=text),),
            status=STATUSES[status[0]] if status else "ok",
        )
        messages.append(ModelMessage(role="user", parts=(answer,)))
    return ModelRequest(model="demo", messages=messages, tools=tuple(map(spec, tools)))


def takes(name: str, **types: str) -> ToolSpec:
    """A tool with these arguments, all of them required."""
    properties = {each: {"type": kind} for each, kind in types.items()}
    schema = {"type": "object", "properties": properties, "required": sorted(types)}
    return ToolSpec(name=name, description=name, parameters=schema)


ADD = takes("add", a="integer", b="integer")
CALCULATE = takes("calculate", expression="string")
CLOCK = takes("clock")
READ_FILE = takes("read_file", path="string")
REFUND = takes("refund", order="string", cents="integer")


def offering(said: str, *tools: ToolSpec, results: Sequence[tuple[str, ...]] = ()) -> ModelRequest:
    """A request with tools that say what they take."""
    asked = request(said, *results, tools=())
    return ModelRequest(model="demo", messages=asked.messages, tools=tools)


async def ask(asked: ModelRequest) -> ModelReply:
    model: Model = DemoModel()
    return await model.complete(asked, lambda _event: None)


async def called(asked: ModelRequest) -> ToolCall:
    (part,) = (await ask(asked)).parts
    assert isinstance(part, ToolCall)
    return part


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


async def test_its_example_is_a_call_of_a_tool_that_it_is_offered() -> None:
    reply = await ask(offering("Hello", CLOCK, REFUND))

    assert reply.text.endswith(
        'I can call clock and refund, such as: refund {"cents":1,"order":"text"}'
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


async def test_an_idempotency_key_in_a_result_is_shown_whole() -> None:
    told = "900 cents for A-17, booked under wl_c70673ea260a5f9116dbe38a14f1a8b9f28d9dab"

    reply = await ask(offering('refund {"order": "A-17"}', REFUND, results=[("refund", told)]))

    assert reply.text == f"refund answered {told}."


async def test_a_result_longer_than_a_screen_is_cut() -> None:
    reply = await ask(request('add {"a": 1}', ("add", "x" * 5_000), tools=("add",)))

    assert reply.text == f"add answered {'x' * 599}…."


# ---------------------------------------------------------------------- sums


SUMS = [
    ("What is 17 % of 2400?", "17 % of 2400 = 408."),
    ("17 percent of 2,400", "17 percent of 2,400 = 408."),
    ("17 * 24", "17 * 24 = 408."),
    ("What's 3 plus 4?", "3 + 4 = 7."),
    ("How much is 12 times 12, please?", "12 * 12 = 144."),
    ("Calculate (1 + 2) * 3.", "(1 + 2) * 3 = 9."),
    ("Add 19 and 23", "19 + 23 = 42."),
    ("Multiply 6 by 7", "6 * 7 = 42."),
    ("subtract 3 from 10", "10 - 3 = 7."),
    ("3 x 4 =", "3 * 4 = 12."),
    ("0.1 + 0.2", "0.1 + 0.2 = 0.3."),
]


@pytest.mark.parametrize(("said", "answer"), SUMS)
async def test_it_can_do_sums(said: str, answer: str) -> None:
    assert (await ask(request(said, tools=()))).text == answer


@pytest.mark.parametrize(
    "said", ["2026-05-01", "A-17", "5", "1 / 0", "Is 3-4 a date?", "9 ** 9 ** 9", "1+" * 200]
)
async def test_what_is_not_a_sum_is_not_calculated(said: str) -> None:
    assert "I have no rule for" in (await ask(request(said, tools=()))).text


async def test_a_tool_for_expressions_does_the_sum() -> None:
    asked = "What is 17 % of 2400?"

    call = await called(offering(asked, CALCULATE))
    reply = await ask(offering(asked, CALCULATE, results=[("calculate", "408.0")]))

    assert (call.name, call.args) == ("calculate", {"expression": "2400 * 17 / 100"})
    assert reply.text == "17 % of 2400 = 408."


async def test_a_tool_for_two_numbers_does_the_sum() -> None:
    call = await called(offering("What is 2 + 3?", ADD))

    assert (call.name, call.args) == ("add", {"a": 2, "b": 3})


async def test_a_tool_that_does_not_take_the_numbers_is_not_called() -> None:
    assert (await ask(offering("2.5 + 3", ADD))).text == "2.5 + 3 = 5.5."
    assert (await ask(offering("2 * 3", ADD))).text == "2 * 3 = 6."


# ---------------------------------------------------------------------- calls in words


@pytest.mark.parametrize(
    ("said", "args"),
    [
        ("Refund 900 cents for order A-17.", {"order": "A-17", "cents": 900}),
        ("refund order: A-17, cents: 900", {"order": "A-17", "cents": 900}),
        ('Please refund order "B 2"; cents=5', {"order": "B 2", "cents": 5}),
    ],
)
async def test_a_tool_is_called_in_words_that_have_its_arguments(
    said: str, args: dict[str, object]
) -> None:
    call = await called(offering(said, REFUND))

    assert (call.name, call.args) == ("refund", args)


@pytest.mark.parametrize("said", ["What time is it?", "clock", "Show me the clock."])
async def test_a_tool_without_arguments_is_called_by_its_name(said: str) -> None:
    assert (await called(offering(said, CLOCK, REFUND))).name == "clock"


async def test_a_path_is_an_argument() -> None:
    call = await called(offering("Read the file docs/README.md.", READ_FILE))

    assert (call.name, call.args) == ("read_file", {"path": "docs/README.md"})


@pytest.mark.parametrize(
    "said", ["Refund", "Refund 900 cents", "Refund order A-17", "900 cents for order A-17"]
)
async def test_a_tool_is_not_called_without_its_name_and_its_arguments(said: str) -> None:
    assert "I have no rule for" in (await ask(offering(said, REFUND))).text


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
