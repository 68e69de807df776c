"""A tool that stands for the answer, where the API cannot be told its shape."""

from __future__ import annotations

from typing import Any, NamedTuple

from windlass.kernel import canonical
from windlass.kernel.messages import Reasoning, Text, ToolCall
from windlass.kernel.model_call import ModelRequest, ReplyPart

_NAME = "final_answer"
_FIELD = "answer"


class AnswerTool(NamedTuple):
    """The tool's name, which no other tool has. `is_wrapped`: the answer is no object, so it stands in one."""

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
        thoughts: list[ReplyPart] = [part for part in parts if isinstance(part, Reasoning)]
        answer = Text(text=canonical.encode(value).decode())
        return [*thoughts, answer], "stop" if terminal == "tool_use" else terminal
