"""A request as a small model reads it: a few messages, and the grammar that its reply has to keep.

A model this small knows nothing of tool calls. So the tools are told in words, and what it writes is held to
a schema: `{"answer": …}` to the user, or `{"tool": …, "arguments": …}`. What it said before is shown the same way.

Left alone it calls a tool again and again. So once it has called one it may not call that one again before the
user has spoken, unless it has to call and there is no other.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from windlass.errors import CallerError
from windlass.guards.text import clean_text
from windlass.kernel import Attachment, Json, Text, ToolCall, ToolResult, ToolSpec, canonical
from windlass.kernel.model_call import ModelMessage, ModelRequest, RequestPart
from windlass.models.message_parts import result_words, stand_in

ANSWER = "answer"
TOOL = "tool"
ARGUMENTS = "arguments"

_MAX_TOLD = 160
# To the grammar: write no blanks, each costs a token; pass over what it does not know in a schema.
_GUIDANCE = {"x-guidance": {"whitespace_flexible": False, "lenient": True}}


def offered_tools(request: ModelRequest) -> tuple[ToolSpec, ...]:
    """Return the tools that may be called."""
    return () if request.tool_choice == "none" else request.tools


def messages_of(request: ModelRequest) -> list[dict[str, str]]:
    """Return the messages; the tools, if there are any, are told in the first."""
    tools = offered_tools(request)
    messages = [_message(each, has_tools=bool(tools)) for each in request.messages]
    if not tools:
        return messages
    told = _tools_told(tools, is_call_required=request.tool_choice == "required")
    if messages and messages[0]["role"] == "system":
        messages[0] = {"role": "system", "content": f"{messages[0]['content']}\n\n{told}"}
    else:
        messages.insert(0, {"role": "system", "content": told})
    return messages


def schema_of(request: ModelRequest) -> Json:
    """Return what the whole reply has to be; None if any text will do."""
    tools = offered_tools(request)
    if not tools:
        return None if request.output is None else {**_GUIDANCE, **dict(request.output)}
    done = _called(request)
    fresh = [tool for tool in tools if tool.name not in done]
    if request.tool_choice == "required":
        fresh = fresh or list(tools)
    homes = {tool.name: dict(tool.parameters) for tool in fresh}
    choices = [
        _record({TOOL: {"const": name}, ARGUMENTS: {"$ref": f"#/$defs/{name}"}}) for name in homes
    ]
    if request.tool_choice != "required":
        homes[f"{ANSWER}."] = {"type": "string"} if request.output is None else dict(request.output)
        choices.insert(0, _record({ANSWER: {"$ref": f"#/$defs/{ANSWER}."}}))
    # A schema that points into itself points into its own home, now that it is part of a larger one.
    moved = {name: _moved(schema, f"#/$defs/{name}") for name, schema in homes.items()}
    return {**_GUIDANCE, "$defs": moved, "oneOf": choices}


def _called(request: ModelRequest) -> set[str]:
    """Return the tools that were called since the user spoke."""
    names: set[str] = set()
    for message in reversed(list(request.messages)):
        if message.role == "user" and not all(isinstance(p, ToolResult) for p in message.parts):
            break
        names.update(part.name for part in message.parts if isinstance(part, ToolCall))
    return names


def _record(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": fields,
        "required": list(fields),
        "additionalProperties": False,
    }


def _moved(schema: Json, home: str) -> Json:
    """Return a schema whose references begin at its new home."""
    if isinstance(schema, dict):
        return {
            key: home + value[1:]
            if key == "$ref" and isinstance(value, str) and value.startswith("#")
            else _moved(value, home)
            for key, value in schema.items()
        }
    if isinstance(schema, (list, tuple)):
        return [_moved(each, home) for each in schema]
    return schema


# --- words ---------------------------------------------------------------------------------------


def _message(message: ModelMessage, *, has_tools: bool) -> dict[str, str]:
    is_own = has_tools and message.role == "assistant"
    said = [_said(part, is_own=is_own) for part in message.parts]
    return {"role": message.role, "content": "\n".join(filter(None, said))}


def _said(part: RequestPart, *, is_own: bool) -> str:
    match part:
        case Text(text=text):
            return _json({ANSWER: text}) if is_own else text
        case ToolCall(name=name, args=args):
            return _json({TOOL: name, ARGUMENTS: args})
        case ToolResult(name=name, status=status):
            how = "" if status == "ok" else f" ({status})"
            return f"Result of {name}{how}: {result_words(part)}"
        case Attachment():
            return stand_in(part)
        case _:
            return ""  # thoughts: it has none of its own


def _tools_told(tools: tuple[ToolSpec, ...], *, is_call_required: bool) -> str:
    lines = [f"- {tool.name}({_parameters(tool)}): {_first_line(tool)}" for tool in tools]
    call = f'{{"{TOOL}": NAME, "{ARGUMENTS}": {{...}}}} calls a tool'
    answer = "" if is_call_required else f', {{"{ANSWER}": TEXT}} answers the user'
    return "\n".join(["Tools:", *lines, f"Reply with one JSON object: {call}{answer}."])


def _parameters(tool: ToolSpec) -> str:
    fields = tool.parameters.get("properties")
    if not isinstance(fields, dict):
        return ""
    return ", ".join(f"{name}: {_kind(schema)}" for name, schema in fields.items())


def _kind(schema: Json) -> str:
    if not isinstance(schema, dict):
        return "any"
    if isinstance(schema.get("enum"), (list, tuple)):
        return " or ".join(_json(each) for each in schema["enum"][:8])
    kind = schema.get("type", "any")
    return kind if isinstance(kind, str) else " or ".join(map(str, kind))


def _first_line(tool: ToolSpec) -> str:
    return tool.description.strip().partition("\n")[0][:_MAX_TOLD]


def _json(value: Json) -> str:
    return msgspec.json.encode(value).decode()


# --------------------------------------------------------------------------------------- the answer


_OPENING = re.compile(rf'\s*\{{\s*"{ANSWER}"\s*:\s*"')
_HIGH = r"\\u[dD][89abAB][0-9a-fA-F]{2}"
_LOW = r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
# As much of a JSON string as can be read already: no escape that is cut, no half of a pair that may still come.
_READABLE = re.compile(
    r'(?:[^"\\\x00-\x1f]'
    r'|\\["\\/bfnrt]'
    r"|\\u(?![dD][89abAB])[0-9a-fA-F]{4}"
    rf"|{_HIGH}{_LOW}"
    rf"|{_HIGH}(?=[^\\]|\\[^u]|\\u[^dD]|\\u[dD][^c-fC-F]))*"
)


class AnswerReader:
    """Reads a reply held to a schema while it is written: gives out the words for the user, without the JSON."""

    def __init__(self) -> None:
        self._written: list[str] = []
        self._unread = ""
        self._is_open = False

    def feed(self, piece: str) -> str:
        """Take a piece; return the words that can be shown now."""
        self._written.append(piece)
        self._unread += piece
        if not self._is_open:
            opening = _OPENING.match(self._unread)
            if opening is None:
                return ""
            self._unread, self._is_open = self._unread[opening.end() :], True
        return self._read()

    def _read(self) -> str:
        found = _READABLE.match(self._unread)
        segment = found.group() if found else ""
        self._unread = self._unread[len(segment) :]
        return clean_text(canonical.parse(f'"{segment}"'))

    @property
    def written(self) -> str:
        """All that the model wrote."""
        return "".join(self._written)


def read_object(text: str) -> dict[str, Json] | None:
    """Return the JSON object that a text is; None if it is cut, or another thing."""
    try:
        found = canonical.parse(text)
    except (ValueError, CallerError):
        return None
    return found if isinstance(found, dict) else None
