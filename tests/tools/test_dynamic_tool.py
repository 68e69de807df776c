"""Tools with a ready schema: what is refused when they are made, and what of their arguments."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.errors import ArgsInvalid, ConfigError
from windlass.kernel.tool_call import ToolSpec
from windlass.kernel.value import freeze
from windlass.ports.tool import Tool, ToolContext
from windlass.tools import DynamicTool

CTX = ToolContext(deps=None, call_id="c1")


async def echo(ctx: ToolContext[Any], args: dict[str, Any]) -> object:
    return [ctx.call_id, args]


def made(parameters: dict[str, Any]) -> DynamicTool:
    return DynamicTool(ToolSpec(name="remote", parameters=parameters), echo)


def taking(schema: dict[str, Any]) -> DynamicTool:
    return made({"type": "object", "properties": {"x": schema}, "required": ["x"]})


async def test_a_ready_schema_and_a_function_make_a_tool() -> None:
    remote: Tool = DynamicTool(
        ToolSpec(name="remote", description="Far."), echo, effect="keyed", risk="high", retries=1
    )

    assert (remote.effect, remote.risk, remote.retries) == ("keyed", "high", 1)
    assert await remote.run(CTX, remote.check({"a": 1})) == ["c1", {"a": 1}]


async def test_a_sync_function_will_do() -> None:
    remote = DynamicTool(ToolSpec(name="remote"), lambda ctx, args: args["a"])

    assert await remote.run(CTX, remote.check({"a": 1})) == 1


async def test_the_body_gets_arguments_of_its_own() -> None:
    def spoil(ctx: ToolContext[Any], args: dict[str, Any]) -> None:
        args["a"].append(1)

    remote = DynamicTool(ToolSpec(name="remote"), spoil)
    history = freeze({"a": []})

    await remote.run(CTX, remote.check(history))

    assert history == {"a": []}


def test_references_are_written_out_and_what_names_the_document_is_dropped() -> None:
    remote = made(
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "Remote",
            "type": "object",
            "properties": {
                "title": {"$ref": "#/$defs/Title", "description": "its name"},
                "all": {"type": "array", "items": {"$ref": "#/definitions/n"}},
            },
            "$defs": {"Title": {"title": "Title", "type": "string", "description": "a title"}},
            "definitions": {"n": {"type": "integer"}},
        }
    )

    assert remote.spec.parameters == {
        "type": "object",
        "properties": {
            "title": {"type": "string", "description": "its name"},
            "all": {"type": "array", "items": {"type": "integer"}},
        },
    }


LOOP = {"a": {"type": "object", "properties": {"b": {"$ref": "#/$defs/b"}}}, "b": {"$ref": "#/$defs/a"}}  # fmt: skip
WIDE = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(16)} | {"d16": {}}


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"properties": {"x": {"$ref": "#/$defs/a"}}, "$defs": LOOP}, "contains itself (a)"),
        ({"properties": {"x": {"$ref": "#"}}}, "contains itself (the whole schema)"),
        ({"properties": {"x": {"$ref": "https://a.b/c"}}}, "a reference to another document"),
        ({"properties": {"x": {"$ref": "file:///etc/passwd"}}}, "a reference to another document"),
        ({"properties": {"x": {"$ref": "other.json"}}}, "a reference to another document"),
        ({"properties": {"x": {"$ref": 7}}}, "a reference to another document"),
        ({"properties": {"x": {"$ref": "#/$defs/a"}}}, "a reference to nothing"),
        ({"properties": {"x": {"$ref": "#/properties/y"}}}, "a reference to nothing"),
        ({"properties": {"x": {"$dynamicRef": "#a"}}}, "found $dynamicRef"),
        ({"properties": {"x": {"pattern": "(a+)+$"}}}, "a regular expression"),
        ({"properties": {"x": {"items": {"pattern": "a"}}}}, "a regular expression"),
        ({"patternProperties": {"(a+)+$": {}}}, "a regular expression"),
        ({"properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": WIDE}, "too large"),
        ({"description": "a" * 70_000}, "at most 65,536"),
        ({"type": "array"}, "wanted an object of arguments"),
    ],
)
def test_a_schema_that_cannot_be_trusted_is_refused(
    parameters: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        made(parameters)

    assert str(caught.value).startswith("tool remote: ")
    assert message in str(caught.value)


def test_what_is_no_spec_or_no_function_is_refused() -> None:
    with pytest.raises(ConfigError):
        DynamicTool("remote", echo)  # type: ignore[arg-type]
    with pytest.raises(ConfigError):
        DynamicTool(ToolSpec(name="remote"), "echo")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="retries"):
        DynamicTool(ToolSpec(name="remote"), echo, retries=1)


@pytest.mark.parametrize(
    ("schema", "fits", "not_fits", "message"),
    [
        ({"type": "string"}, "a", 1, "args.x: found integer, wanted string"),
        ({"type": "integer"}, 1, "1", "args.x: found string, wanted integer"),
        ({"type": "integer"}, 1.0, 1.5, "args.x: found number, wanted integer"),
        ({"type": "integer"}, 1, True, "args.x: found boolean, wanted integer"),
        ({"type": "number"}, 1, "1", "args.x: found string, wanted number"),
        ({"type": "boolean"}, True, 1, "args.x: found integer, wanted boolean"),
        ({"type": "null"}, None, 0, "args.x: found integer, wanted null"),
        ({"type": ["string", "null"]}, None, 1, "args.x: found integer, wanted string or null"),
        ({"type": "array", "items": {"type": "integer"}}, [1], [1, "a"], "args.x[1]: found string, wanted integer"),
        ({"prefixItems": [{"type": "string"}], "items": False}, ["a"], ["a", 1], "args.x[1]: found a value, wanted nothing: the schema takes none here"),
        ({"type": "array", "maxItems": 1}, [1], [1, 2], "args.x: found a length of 2, wanted at most 1"),
        ({"type": "array", "minItems": 1}, [1], [], "args.x: found a length of 0, wanted at least 1"),
        ({"uniqueItems": True}, [1, "1"], [1, 1], "args.x: found an item twice, wanted each item once"),
        ({"type": "string", "maxLength": 1}, "a", "ab", "args.x: found a length of 2, wanted at most 1"),
        ({"minimum": 1}, 1, 0, "args.x: found another number, wanted a number of at least 1"),
        ({"maximum": 1}, 1, 2, "args.x: found another number, wanted a number of at most 1"),
        ({"exclusiveMinimum": 1}, 2, 1, "args.x: found another number, wanted a number above 1"),
        ({"exclusiveMaximum": 1}, 0, 1, "args.x: found another number, wanted a number below 1"),
        ({"multipleOf": 0.1}, 0.3, 0.35, "args.x: found another number, wanted a multiple of 0.1"),
        ({"multipleOf": 3}, 9, 10, "args.x: found another number, wanted a multiple of 3"),
        ({"type": "integer", "multipleOf": 0.5}, 7, 10**400, "args.x: found another number, wanted a multiple of 0.5"),
        ({"multipleOf": 1e-308}, 3e-308, 1e308, "args.x: found another number, wanted a multiple of 1e-308"),
        ({"const": [True]}, [True], [1], "args.x: found another value, wanted one of: [true]"),
        ({"const": {"a": [0]}}, {"a": [0]}, {"a": [False]}, 'args.x: found another value, wanted one of: {"a":[0]}'),
        ({"enum": [{"a": True}]}, {"a": True}, {"a": 1}, 'args.x: found another value, wanted one of: {"a":true}'),
        ({"enum": [[1], {"a": 2}]}, [1.0], [True], 'args.x: found another value, wanted one of: [1], {"a":2}'),
        ({"enum": ["a", 1]}, 1, True, 'args.x: found another value, wanted one of: "a", 1'),
        ({"const": "a"}, "a", "b", 'args.x: found another value, wanted one of: "a"'),
        ({"anyOf": [{"type": "string"}, {"type": "object", "properties": {"a": {"type": "integer"}}}]},
         {"a": 1}, {"a": "b"}, "args.x.a: found string, wanted integer"),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, 1.5, 1, "args.x: found a value that fits 2 of the options, wanted exactly one"),
        ({"allOf": [{"minimum": 1}, {"maximum": 2}]}, 1, 3, "args.x: found another number, wanted a number of at most 2"),
        ({"type": "object", "required": ["a"]}, {"a": None}, {}, "args.x.a: found nothing, wanted a value: it is required"),
        ({"properties": {"a": {}}, "additionalProperties": False}, {"a": 1}, {"b": 1}, "args.x.b: found a name that does not exist, wanted one of: a"),
        ({"additionalProperties": {"type": "integer"}}, {"a": 1}, {"a": "b"}, "args.x.a: found string, wanted integer"),
    ],
    ids=str,
)  # fmt: skip
def test_arguments_are_checked_by_the_common_part_of_json_schema(
    schema: dict[str, Any], fits: object, not_fits: object, message: str
) -> None:
    remote = taking(schema)

    assert remote.check({"x": fits}) == {"x": fits}
    with pytest.raises(ArgsInvalid) as caught:
        remote.check({"x": not_fits})
    assert str(caught.value) == message


def test_missing_and_shapeless_arguments_are_refused() -> None:
    remote = taking({})

    with pytest.raises(ArgsInvalid, match=r"args\.x: found nothing"):
        remote.check({})
    with pytest.raises(ArgsInvalid, match="args: found list, wanted an object"):
        remote.check([])  # type: ignore[arg-type]


def test_a_property_that_is_called_pattern_is_a_property() -> None:
    remote = made({"properties": {"pattern": {"type": "string"}}})

    assert remote.check({"pattern": "(a+)+$"}) == {"pattern": "(a+)+$"}
