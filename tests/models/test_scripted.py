"""Scripted models: which reply is played where, under which ids, and what is shown on the way."""

from __future__ import annotations

import pytest

from windlass.errors import InvalidInput, Rejected, Throttled
from windlass.kernel import (
    ModelFailure,
    ModelMessage,
    ModelReply,
    ModelRequest,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)
from windlass.kernel.model_call import RequestPart
from windlass.models.scripted import FunctionModel, ScriptedModel
from windlass.ports.model import Model, ModelEvent, TextChunk
from windlass.testing import call, calls, say


def user(*parts: RequestPart | str) -> ModelMessage:
    return ModelMessage(role="user", parts=as_parts(parts))


def assistant(*parts: RequestPart | str) -> ModelMessage:
    return ModelMessage(role="assistant", parts=as_parts(parts))


def as_parts(parts: tuple[RequestPart | str, ...]) -> tuple[RequestPart, ...]:
    return tuple(Text(text=part) if isinstance(part, str) else part for part in parts)


def result(call_id: str = "c") -> ToolResult:
    return ToolResult(call_id=call_id, name="add", content=(Text(text="3"),))


def request(*messages: ModelMessage) -> ModelRequest:
    return ModelRequest(model="scripted", messages=messages)


HELLO = request(user("hello"))
ASKED = ToolCall(call_id="c", name="add")
IN_THE_MIDDLE = request(
    user("what is 1 + 2, and 3 more?"),
    assistant(ASKED),
    user(result()),
    assistant(ASKED),
    user(result()),
)


async def ask(model: Model, asked: ModelRequest = HELLO) -> ModelReply:
    return await model.complete(asked, lambda _event: None)


async def test_one_object_plays_its_replies_in_order() -> None:
    model = ScriptedModel([say("one"), say("two"), say("three")])

    assert [(await ask(model)).text for _ in range(3)] == ["one", "two", "three"]


async def test_a_fresh_object_finds_its_place_in_the_middle_of_a_turn() -> None:
    script = [call("add", a=1), call("add", a=2), say("done")]

    assert await ask(ScriptedModel(script), IN_THE_MIDDLE) == say("done")


async def test_the_replies_of_earlier_turns_do_not_move_a_fresh_object_on() -> None:
    asked = request(
        user("hello"), assistant("hi"), user("and you?"), assistant(ASKED), user(result())
    )

    assert (await ask(ScriptedModel([say("one"), say("two"), say("three")]), asked)).text == "two"


async def test_results_with_words_beside_them_are_the_user_speaking() -> None:
    asked = request(user("hello"), assistant(ASKED), user(result(), "and hurry"))

    assert (await ask(ScriptedModel([say("one"), say("two")]), asked)).text == "one"


async def test_an_object_that_came_in_the_middle_goes_on_from_there_in_the_next_turn() -> None:
    model = ScriptedModel([call("add"), call("add"), say("done"), say("next turn")])
    await ask(model, IN_THE_MIDDLE)

    assert (await ask(model, HELLO)).text == "next turn"


async def test_an_object_never_goes_back() -> None:
    model = ScriptedModel([say("one"), say("two"), say("three")])
    await ask(model)
    await ask(model)

    asked = request(user("hello"), assistant(ASKED), user(result()))
    assert (await ask(model, asked)).text == "three"


@pytest.mark.parametrize(
    ("script", "asked", "words"),
    [
        pytest.param([], HELLO, "the script of 0 replies has no reply number 1", id="empty"),
        pytest.param(
            [say("one"), say("two")], IN_THE_MIDDLE,
            "the script of 2 replies has no reply number 3", id="further-on",
        ),
    ],
)  # fmt: skip
async def test_past_its_end_a_script_says_so(
    script: list[ModelReply], asked: ModelRequest, words: str
) -> None:
    with pytest.raises(Rejected, match=words):
        await ask(ScriptedModel(script), asked)


async def test_an_error_in_the_script_is_raised_once_in_its_place() -> None:
    busy = Throttled("busy", retry_after_s=2)
    model = ScriptedModel([busy, say("now")])

    with pytest.raises(Throttled) as raised:
        await ask(model)

    assert raised.value is busy
    assert (await ask(model)).text == "now"


async def test_ids_of_calls_derive_from_the_place_in_the_script() -> None:
    script = [say("first"), calls(("add", {"a": 1}), ("add", {"a": 2}))]
    model = ScriptedModel(script)
    await ask(model)

    reply = await ask(model)

    assert reply.parts == (
        ToolCall(call_id="call_1_0", name="add", args={"a": 1}),
        ToolCall(call_id="call_1_1", name="add", args={"a": 2}),
    )
    assert reply.terminal == "tool_use"


async def test_ids_written_by_hand_stay() -> None:
    by_hand = ModelReply(
        parts=(Reasoning(text="hm"), ToolCall(call_id="mine", name="add")), terminal="tool_use"
    )

    assert await ask(ScriptedModel([by_hand])) == by_hand


async def test_every_request_is_kept_even_one_without_a_reply() -> None:
    model = ScriptedModel([say("one")])
    await ask(model, HELLO)
    with pytest.raises(Rejected):
        await ask(model, IN_THE_MIDDLE)

    assert model.requests == [HELLO, IN_THE_MIDDLE]


@pytest.mark.parametrize(
    ("chunks", "pieces"),
    [
        (0, []),
        (1, ["seven!!"]),
        (3, ["se", "ve", "n!!"]),
        (7, ["s", "e", "v", "e", "n", "!", "!"]),
        (9, ["s", "e", "v", "e", "n", "!", "!"]),
    ],
)
async def test_words_are_shown_in_as_many_pieces_as_asked_for(
    chunks: int, pieces: list[str]
) -> None:
    shown: list[ModelEvent] = []

    reply = await ScriptedModel([say("seven!!")], chunks=chunks).complete(HELLO, shown.append)

    assert shown == [TextChunk(text=piece) for piece in pieces]
    assert reply.text == "seven!!"


async def test_a_reply_without_words_shows_nothing() -> None:
    shown: list[ModelEvent] = []

    await ScriptedModel([call("add")], chunks=3).complete(HELLO, shown.append)

    assert shown == []


@pytest.mark.parametrize("line", ["words", None, ModelFailure(message="no"), ValueError])
def test_a_script_takes_replies_and_exceptions_only(line: object) -> None:
    with pytest.raises(InvalidInput, match=r"^replies\[1\]: found .+, wanted a ModelReply or an"):
        ScriptedModel([say("one"), line])  # type: ignore[list-item] # that is the point


def test_fewer_than_no_chunks_are_refused() -> None:
    with pytest.raises(InvalidInput, match="chunks: found -1"):
        ScriptedModel([], chunks=-1)


def test_names_are_what_they_are_called() -> None:
    assert ScriptedModel([]).name == "scripted"
    assert FunctionModel(lambda _: "").name == "function"
    assert ScriptedModel([], name="a").name == "a"
    assert FunctionModel(lambda _: "", name="b").name == "b"


# --- a function ----------------------------------------------------------------------------------


async def test_a_function_answers_from_the_request() -> None:
    model = FunctionModel(lambda asked: say(f"{len(asked.messages)} messages"))

    assert await ask(model, IN_THE_MIDDLE) == say("5 messages")
    assert model.requests == [IN_THE_MIDDLE]


async def test_a_function_may_be_async() -> None:
    async def answer(asked: ModelRequest) -> ModelReply:
        return say(asked.model)

    assert await ask(FunctionModel(answer)) == say("scripted")


async def test_plain_words_of_a_function_are_a_reply() -> None:
    async def answer(_asked: ModelRequest) -> str:
        return "later"

    assert await ask(FunctionModel(lambda _: "now")) == say("now")
    assert await ask(FunctionModel(answer)) == say("later")


async def test_ids_of_a_functions_calls_differ_from_reply_to_reply() -> None:
    model = FunctionModel(lambda _: call("add", a=1))

    first = await ask(model, HELLO)
    third = await ask(model, IN_THE_MIDDLE)
    again = await ask(model, IN_THE_MIDDLE)

    assert first.parts == (ToolCall(call_id="call_0_0", name="add", args={"a": 1}),)
    assert third.parts == again.parts == (ToolCall(call_id="call_2_0", name="add", args={"a": 1}),)


async def test_what_is_no_reply_is_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match="function: found int, wanted a ModelReply or text"):
        await ask(FunctionModel(lambda _: 3))  # type: ignore[arg-type,return-value] # the point


async def test_an_error_of_the_function_comes_out() -> None:
    def refuse(_asked: ModelRequest) -> str:
        raise Throttled("busy")

    with pytest.raises(Throttled, match="busy"):
        await ask(FunctionModel(refuse))
