"""The demo model with tools that say what they take: sums, and calls in plain words."""

from __future__ import annotations

import pytest

from tests.models.demo_requests import ask, called, offering, request, takes

ADD = takes("add", a="integer", b="integer")
CALCULATE = takes("calculate", expression="string")
CLOCK = takes("clock")
READ_FILE = takes("read_file", path="string")
REFUND = takes("refund", order="string", cents="integer")


async def test_an_idempotency_key_in_a_result_is_shown_whole() -> None:
    told = "900 cents for A-17, booked under wl_c70673ea260a5f9116dbe38a14f1a8b9f28d9dab"

    reply = await ask(offering('refund {"order": "A-17"}', REFUND, results=[("refund", told)]))

    assert reply.text == f"refund answered {told}."


async def test_its_example_is_a_call_of_a_tool_that_it_is_offered() -> None:
    reply = await ask(offering("Hello", CLOCK, REFUND))

    assert reply.text.endswith(
        'I can call clock and refund, such as: refund {"cents":1,"order":"text"}'
    )


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
