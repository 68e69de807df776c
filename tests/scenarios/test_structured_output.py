"""Structured output: an answer of the shape that was asked for, or a result that names why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest

from tests.limits import HANGS_S
from tests.scenarios.payers import payer, script
from tests.scenarios.readings import said_by_user
from tests.scenarios.stage import Desk, Stage
from tests.scenarios.workers import worker
from windlass import Agent, EndTurn, Limits, Runtime, tool
from windlass.errors import ConfigError, NoOutput
from windlass.kernel import ModelReply, Text
from windlass.kernel.outcomes import FinishedValue, Stopped
from windlass.testing import ScriptedModel, call, say


@dataclass
class Plain:
    city: str
    degrees: float = 0.0


class Packed(msgspec.Struct):
    city: str
    degrees: float = 0.0


class Modelled(pydantic.BaseModel):
    city: str
    degrees: float = 0.0


class Typed(TypedDict):
    city: str
    degrees: float


def speaking(text: str, name: str) -> ModelReply:
    """Return a reply with words and a call."""
    return msgspec.structs.replace(call(name), text="", parts=(Text(text=text), *call(name).parts))


RIGHT = '{"city": "Oslo", "degrees": -3.5}'
CASES: list[Any] = [
    pytest.param(Plain, Plain("Oslo", -3.5), id="dataclass"),
    pytest.param(Packed, Packed("Oslo", -3.5), id="msgspec"),
    pytest.param(Modelled, Modelled(city="Oslo", degrees=-3.5), id="pydantic"),
    pytest.param(Typed, {"city": "Oslo", "degrees": -3.5}, id="typed-dict"),
]


@pytest.mark.parametrize(("wanted", "value"), CASES)
async def test_an_answer_has_the_type_that_the_agent_declares(
    stage: Stage, wanted: type[Any], value: object
) -> None:
    model = ScriptedModel([say(RIGHT)])
    agent: Agent[None, Any] = Agent("teller", model=model, output_type=wanted)
    async with stage.runtime(agent) as rt:
        live = await rt.session("s").run("Weather?", turn_id="t")
        stored = await rt.turn("s", "t").result(timeout=HANGS_S)

    for result in (live, stored):
        assert result.output == value
        assert type(result.output) is type(value)
        assert result.outcome == FinishedValue(value={"city": "Oslo", "degrees": -3.5})
        assert result.output_state == "usable"
    schema = model.requests[0].output
    assert isinstance(schema, dict)
    assert set(schema["properties"]) == {"city", "degrees"}


@pytest.mark.parametrize(
    ("hint", "said", "value"),
    [
        (int, "7", 7),
        (list[int], "[1, 2]", [1, 2]),
        (bool, "false", False),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (int | None, "null", None),
    ],
    ids=["int", "list", "bool", "dict", "optional"],
)
async def test_plain_hints_are_types_too(
    memory_stage: Stage, hint: type[Any], said: str, value: object
) -> None:
    agent: Agent[None, Any] = Agent("teller", model=ScriptedModel([say(said)]), output_type=hint)
    async with memory_stage.runtime(agent) as rt:
        result = await rt.session("s").run("Go.")

    assert result.output == value
    assert type(result.output) is type(value)


@pytest.mark.parametrize("fence", ["```json\n{}\n```", "```\n{}\n```", "  {}  \n"])
async def test_an_answer_in_a_fence_is_an_answer(memory_stage: Stage, fence: str) -> None:
    model = ScriptedModel([say(fence.replace("{}", RIGHT))])
    agent = Agent("teller", model=model, output_type=Plain)
    async with memory_stage.runtime(agent) as rt:
        result = await rt.session("s").run("Go.")

    assert result.output == Plain("Oslo", -3.5)
    assert len(model.requests) == 1


@pytest.mark.parametrize(
    "wrong",
    ["It is cold.", '{"city": 7}', '{"degrees": 1}', "[]", "null"],
    ids=["words", "type", "missing", "list", "null"],
)
async def test_an_answer_of_the_wrong_shape_is_sent_back_with_the_reason(
    memory_stage: Stage, wrong: str
) -> None:
    model = ScriptedModel([say(wrong), say(RIGHT)])
    agent = Agent("teller", model=model, output_type=Plain)
    async with memory_stage.runtime(agent) as rt:
        result = await rt.session("s").run("Go.", turn_id="t")

    assert result.output == Plain("Oslo", -3.5)
    repair = said_by_user(model.requests[1])[-1]
    assert repair.startswith("Your answer does not have the shape that was asked for: ")
    assert result.iterations == 2


async def test_a_repair_survives_its_worker(stage: Stage) -> None:
    """The wrong answer and what was said to it are recorded; tries are counted over crashes."""
    desk = Desk(is_open=False)
    replies = [say("no"), call("work"), say("no"), say("no"), say("no"), say("no")]
    first, second = ScriptedModel(replies), ScriptedModel(replies[3:])
    limits = Limits(output_retries=2)
    async with stage.runtime(worker(desk, first, output_type=Plain, limits=limits)) as lost:
        await lost.session("s").submit("Go.", turn_id="t")
        await desk.entered.wait()
        stage.kill(lost)
        async with stage.runtime(worker(Desk(), second, output_type=Plain, limits=limits)) as rt:
            result = await rt.turn("s", "t").result(timeout=HANGS_S)
        desk.gate.set()

    assert len(second.requests) == 2  # one more repair, then it is given up
    assert result.output_or_none is None
    assert len([m for m in result.messages if m.role == "user" and m.origin is not None]) >= 2


async def test_a_field_too_many_is_left_out(memory_stage: Stage) -> None:
    model = ScriptedModel([say('{"city": "Oslo", "sky": "blue"}')])
    async with memory_stage.runtime(Agent("teller", model=model, output_type=Plain)) as rt:
        result = await rt.session("s").run("Go.")

    assert result.output == Plain("Oslo", 0.0)


@pytest.mark.parametrize("retries", [0, 1, 2])
async def test_after_so_many_repairs_it_gives_up_and_names_the_outcome(
    memory_stage: Stage, retries: int
) -> None:
    model = ScriptedModel([say("no")] * 9)
    agent = Agent("teller", model=model, output_type=Plain, limits=Limits(output_retries=retries))
    async with memory_stage.runtime(agent) as rt:
        result = await rt.session("s").run("Go.", turn_id="t")

    assert len(model.requests) == 1 + retries
    assert result.output_or_none is None
    with pytest.raises(NoOutput, match=r"turn t: stopped: invalid_output \(The answer is not JSON"):
        _ = result.output
    assert result.outcome == Stopped(reason="invalid_output", detail="The answer is not JSON.")
    assert result.text == "no"


@pytest.mark.parametrize(
    ("said", "detail"),
    [
        ("I know a secret.", "The answer is not JSON."),
        (
            '{"city": 7, "note": "secret"}',
            "The answer does not fit at output.city: found int, wanted str.",
        ),
        (
            '{"degrees": 1}',
            "The answer does not fit at output: Object missing required field city.",
        ),
        ("[]", "The answer does not fit at output: found array, wanted object."),
    ],
    ids=["words", "type", "missing", "list"],
)
async def test_an_answer_that_never_fits_is_a_failure_that_says_where_and_nothing_of_the_answer(
    stage: Stage, said: str, detail: str
) -> None:
    agent = Agent("teller", model=ScriptedModel([say(said)] * 3), output_type=Plain)
    async with stage.runtime(agent) as rt:
        live = await rt.session("s").run("Go.", turn_id="t")
        stored = await rt.turn("s", "t").result(timeout=HANGS_S)

    for result in (live, stored):
        assert result.outcome == Stopped(reason="invalid_output", detail=detail)
        with pytest.raises(NoOutput, match="stopped: invalid_output"):
            result.raise_for_outcome()
        assert (result.text, result.safe_text) == (said, said)
        assert result.output_state == "error_only"
        (issue,) = result.issues
        assert (issue.code, issue.message) == ("invalid_output", detail)
    assert live.issues == stored.issues


async def test_a_value_of_the_wrong_shape_by_a_tool_is_a_failure(stage: Stage) -> None:
    @tool(effect="pure")
    def submit(city: int) -> EndTurn:
        """Submit it."""
        return EndTurn(value={"city": city})

    model = ScriptedModel([call("submit", city=7)])
    agent = Agent("teller", model=model, tools=[submit], output_type=Plain)
    async with stage.runtime(agent) as rt:
        result = await rt.session("s").run("Go.", turn_id="t")

    detail = "What submit gave does not fit at output.city: found int, wanted str."
    assert result.outcome == Stopped(reason="invalid_output", detail=detail)
    assert [issue.code for issue in result.issues] == ["invalid_output"]
    assert result.output_state == "error_only"
    assert len(model.requests) == 1


async def test_a_value_of_the_right_shape_by_a_tool_is_the_output(memory_stage: Stage) -> None:
    @tool(effect="pure")
    def submit(city: str) -> EndTurn:
        """Submit it."""
        return EndTurn(value={"city": city})

    model = ScriptedModel([call("submit", city="Oslo")])
    agent = Agent("teller", model=model, tools=[submit], output_type=Plain)
    async with memory_stage.runtime(agent) as rt:
        result = await rt.session("s").run("Go.")

    assert result.output == Plain("Oslo", 0.0)
    assert result.issues == ()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": [1, None], "a": "ü"}, '{"a":"ü","b":[1,null]}'),
        ("as it is", "as it is"),
        (True, "true"),
        (7, "7"),
    ],
    ids=["object", "text", "bool", "int"],
)
async def test_a_turn_that_a_tool_ended_with_a_value_has_it_as_text(
    stage: Stage, value: object, text: str
) -> None:
    @tool(effect="pure")
    def submit() -> EndTurn:
        """Submit it."""
        return EndTurn(value=value)

    model = ScriptedModel([speaking("Here it is.", "submit")])
    async with stage.runtime(Agent("teller", model=model, tools=[submit])) as rt:
        live = await rt.session("s").run("Go.", turn_id="t")
        stored = await rt.turn("s", "t").result(timeout=HANGS_S)

    for result in (live, stored):
        assert (result.text, result.output, result.output_state) == (text, value, "usable")


async def test_a_turn_that_a_tool_ended_without_a_value_has_the_last_words_as_text(
    memory_stage: Stage,
) -> None:
    @tool(effect="pure")
    def done() -> EndTurn:
        """End it."""
        return EndTurn()

    model = ScriptedModel([speaking("Good bye.", "done")])
    async with memory_stage.runtime(Agent("teller", model=model, tools=[done])) as rt:
        result = await rt.session("s").run("Go.")

    assert result.text == "Good bye."


async def test_a_structured_answer_is_canonical_json_as_text(memory_stage: Stage) -> None:
    model = ScriptedModel([say('```json\n{"degrees": -3.5, "city": "Oslo"}\n```')])
    async with memory_stage.runtime(Agent("teller", model=model, output_type=Plain)) as rt:
        result = await rt.session("s").run("Go.")

    assert result.text == '{"city":"Oslo","degrees":-3.5}'


async def test_a_type_that_has_no_schema_is_refused_when_the_agent_is_made() -> None:
    with pytest.raises(ConfigError):
        Agent("teller", model=ScriptedModel([]), output_type=object)
    with pytest.raises(ConfigError):
        Agent("teller", model=ScriptedModel([]), output_type=Runtime)


async def test_text_is_the_output_of_an_agent_without_a_type(memory_stage: Stage) -> None:
    agent = Agent("teller", model=ScriptedModel([say("Cold.")]))
    async with memory_stage.runtime(agent) as rt:
        result = await rt.session("s").run("Go.")

    assert result.output == result.text == "Cold."
    result.raise_for_outcome()


async def test_a_stopped_turn_has_no_output_and_says_which_way_it_ended(
    memory_stage: Stage,
) -> None:
    agent = worker(Desk(), ScriptedModel([call("work")]), limits=Limits(max_tool_calls=0))
    async with memory_stage.runtime(agent) as rt:
        result = await rt.session("s").run("Go.", turn_id="t")

    with pytest.raises(NoOutput, match=r"turn t: stopped: limit"):
        _ = result.output
    with pytest.raises(NoOutput, match=r"turn t: stopped: limit"):
        result.raise_for_outcome()
    assert result.output_or_none is None
    assert result.output_state == "error_only"


async def test_a_parked_turn_has_no_output_and_says_what_it_waits_for(stage: Stage) -> None:
    async with stage.runtime(payer(Desk(), script())) as rt:
        result = await rt.session("s").run("Pay.", turn_id="t")

    with pytest.raises(NoOutput, match=r"turn t: is parked \(approval\)"):
        _ = result.output


async def test_a_turn_by_its_id_has_the_type_of_its_own_agent(memory_stage: Stage) -> None:
    typed = Agent("typed", model=ScriptedModel([say(RIGHT), say("[1, 2]")]), output_type=Plain)
    plain = Agent("plain", model=ScriptedModel([say("Cold.")], name="words"))
    async with memory_stage.runtime(typed, plain) as rt:
        await rt.session("s", typed).run("Weather?", turn_id="t")
        await rt.session("s", typed).run("Numbers?", turn_id="numbers", output_type=list[int])
        await rt.session("p", plain).run("Weather?", turn_id="t")
        outputs = [
            (await rt.turn(*place).result(timeout=HANGS_S)).output
            for place in (("s", "t"), ("s", "numbers"), ("p", "t"))
        ]

    # Of a type that came with the turn only the schema is kept.
    assert outputs == [Plain("Oslo", -3.5), [1, 2], "Cold."]
