"""An answer of a given shape: the schema in the API's words, and a tool that stands for the answer where it has none."""

from __future__ import annotations

from typing import Any, NamedTuple

from windlass.kernel import canonical
from windlass.kernel.messages import Reasoning, ServerToolCall, Text, ToolCall
from windlass.kernel.model_call import ModelRequest, ReplyPart


def output_schema(schema: dict[str, Any]) -> dict[str, Any] | None:
    """Return the schema in the words that the API knows; what it does not know becomes part of a description.

    None if the API would hold the model to something else: it knows no object with keys of any name, and no
    place where anything may stand.
    """
    from anthropic import transform_schema  # noqa: PLC0415 - only needed for structured output

    one_type = _with_one_type(schema)
    if _is_open(one_type):
        return None
    try:
        return transform_schema(one_type)
    except (ValueError, TypeError, AttributeError, AssertionError):
        return None


def _with_one_type(schema: Any) -> Any:  # noqa: ANN401 - JSON
    """Return the schema with `{"type": [a, b]}` as a choice of two."""
    if isinstance(schema, list):
        return [_with_one_type(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _with_one_type(value) for key, value in schema.items()}
    kinds = found.get("type")
    if not isinstance(kinds, list) or not all(isinstance(kind, str) for kind in kinds):
        return found
    del found["type"]
    return {"anyOf": [{**(found if kind != "null" else {}), "type": kind} for kind in kinds]}


def _is_open(schema: object) -> bool:
    """Whether an object in it may have keys that it does not name."""
    if isinstance(schema, list):
        return any(map(_is_open, schema))
    if not isinstance(schema, dict):
        return False
    if schema.get("type") == "object":
        closed = schema.get("additionalProperties") is False
        named = isinstance(schema.get("properties"), dict) and bool(schema["properties"])
        if not closed and not (named and "additionalProperties" not in schema):
            return True
    return any(map(_is_open, schema.values()))


# ----------------------------------------------------------------------------- the answer as a tool


_NAME = "final_answer"
_FIELD = "answer"


class AnswerTool(NamedTuple):
    """The tool's name, which no other tool has. `is_wrapped`: the answer is not an object, so it is wrapped in one."""

    name: str
    is_wrapped: bool

    @classmethod
    def of(cls, request: ModelRequest) -> AnswerTool:
        """Return the tool for the answer of a request."""
        taken = {tool.name for tool in request.tools}
        name = _NAME
        while name in taken:
            name = f"_{name}"
        schema = request.output
        is_object = isinstance(schema, dict) and schema.get("type") == "object"
        return cls(name, is_wrapped=not is_object)

    def offer(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the tool as it is offered."""
        wrapped = {"type": "object", "properties": {_FIELD: schema}, "required": [_FIELD]}
        return {
            "name": self.name,
            "description": "Give the final answer. Call it when nothing else is to be done.",
            "input_schema": wrapped if self.is_wrapped else schema,
        }

    def read(self, parts: list[ReplyPart], terminal: str) -> tuple[list[ReplyPart], str]:
        """Put the answer in place of the call that gives it; beside other calls it came too early."""
        calls = [part for part in parts if isinstance(part, ToolCall)]
        answers = [call for call in calls if call.name == self.name]
        if not answers:
            return parts, terminal
        if len(answers) < len(calls):
            return [part for part in parts if part not in answers], terminal
        args = answers[0].args
        value = args.get(_FIELD) if self.is_wrapped else args
        kept: list[ReplyPart] = [
            part for part in parts if isinstance(part, (Reasoning, ServerToolCall))
        ]
        answer = Text(text=canonical.encode(value).decode())
        return [*kept, answer], "stop" if terminal == "tool_use" else terminal
