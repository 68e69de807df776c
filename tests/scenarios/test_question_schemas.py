"""What a question may ask for: all that its schema says is checked, or the tool is told that it cannot be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.readings import Told, last_told
from tests.scenarios.stage import Desk, Stage
from tests.scenarios.test_questions import asker, script
from windlass import Agent, ToolContext, tool
from windlass.errors import InvalidInput, LimitExceeded


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"type": "string", "pattern": "^a"}, "schema.pattern"),
        ({"type": "string", "format": "date"}, "schema.format"),
        ({"not": {"type": "string"}}, "schema.not"),
        ({"$ref": "#/$defs/x"}, "schema.$ref"),
        ({"type": "text"}, "schema.type"),
        ({"enum": []}, "schema.enum"),
        ({"minLength": "3"}, "schema.minLength"),
        ({"minLength": -1}, "schema.minLength"),
        ({"items": [{"type": "string"}]}, "schema.items"),
        ({"properties": {"at": {"format": "date"}}}, "schema.properties.at.format"),
        ({"anyOf": [{"type": "null"}, {"contains": {}}]}, "schema.anyOf[1].contains"),
        ({"required": "at"}, "schema.required"),
        (True, "schema"),
        ("string", "schema"),
        ({"type": {"string"}}, "schema.type"),
    ],
)
async def test_a_schema_by_which_answers_cannot_be_checked_is_refused_to_the_tool(
    memory_stage: Stage, schema: object, place: str
) -> None:
    model, desk = script(), Desk()
    async with memory_stage.runtime(asker(desk, model, schema=schema)) as rt:
        result = await rt.session("s").run("Choose.", turn_id="t")

    assert desk.runs == []  # it raised in the body
    assert result.waits == ()
    (told,) = last_told(model)
    assert told.status == "error"
    assert told.text.startswith(f"invalid_input: {place}: found ")


@pytest.mark.parametrize(
    ("schema", "fits", "fits_not"),
    [
        ({"type": "boolean"}, True, "yes"),
        ({"type": "integer", "minimum": 1, "maximum": 5}, 5, 6),
        ({"type": ["string", "null"], "maxLength": 3}, None, "four"),
        (
            {
                "title": "A date",
                "type": "object",
                "properties": {"day": {"type": "integer", "description": "of the month"}},
                "required": ["day"],
                "additionalProperties": False,
            },
            {"day": 3},
            {"day": 3, "hour": 4},
        ),
        (
            {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 1, "uniqueItems": True},
            ["b", "a"],
            ["a", "a"],
        ),
        ({"anyOf": [{"const": "no"}, {"type": "number", "multipleOf": 0.5}]}, 1.5, 1.4),
        ({"prefixItems": [{"type": "string"}, False]}, ["a"], ["a", "b"]),
    ],
)
async def test_answers_are_checked_by_all_that_a_schema_says(
    memory_stage: Stage, schema: Mapping[str, Any], fits: object, fits_not: object
) -> None:
    async with memory_stage.runtime(asker(Desk(), script(), schema=schema)) as rt:
        (wait,) = (await rt.session("s").run("Choose.", turn_id="t")).waits
        with pytest.raises(InvalidInput, match=r"^value"):
            await rt.resolve(wait.key, fits_not)
        await rt.resolve(wait.key, fits)
        result = await rt.turn("s", "t").result(timeout=HANGS_S)

    assert result.tool_calls[0].outcome.value == fits


@pytest.mark.parametrize(
    ("question", "told"),
    [
        (" \n", "invalid_input: question: found no words, wanted what the person is asked"),
        ("x" * 20_000, "limit_exceeded: question: metadata_bytes is 20,000, the limit is 16,384"),
    ],
)
async def test_a_question_that_nobody_could_read_is_refused_to_the_tool(
    memory_stage: Stage, question: str, told: str
) -> None:
    model = script()
    async with memory_stage.runtime(asker(Desk(), model, question=question)) as rt:
        await rt.session("s").run("Choose.", turn_id="t")

    assert last_told(model) == [Told("call_0_0", "error", told)]


async def test_a_schema_over_the_limit_is_refused_to_the_tool(memory_stage: Stage) -> None:
    raised: list[Exception] = []

    @tool(effect="pure")
    async def choose(ctx: ToolContext[None]) -> object:
        """Have a person choose."""
        try:
            return await ctx.ask("Which?", schema={"enum": ["x" * 1_000] * 70})
        except LimitExceeded as error:
            raised.append(error)
            raise

    async with memory_stage.runtime(Agent("asker", model=script(), tools=[choose])) as rt:
        await rt.session("s").run("Choose.", turn_id="t")

    assert [str(error)[:27] for error in raised] == ["schema: schema_bytes is 70,"]
