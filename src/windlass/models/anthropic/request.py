"""A request as Anthropic's Messages API wants it.

Law 1. A request is valid whichever model answered before: thoughts go only with this route's own signature, and
    thinking is not asked for where the API would miss a thought.
Law 2. The stable prefix is marked for the cache: tools, system, the user's last two messages.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from typing import Any, NamedTuple

from msgspec.structs import replace

from windlass.kernel import canonical, thaw
from windlass.kernel.messages import Attachment, Reasoning, Text, ToolCall, ToolResult, is_blank
from windlass.kernel.model_call import ModelMessage, ModelRequest, ReplyPart
from windlass.models.capabilities import Capabilities, stated
from windlass.models.message_parts import bytes_of, stand_in
from windlass.models.route import Route, own_blob

_Block = dict[str, Any]
_MARK = {"type": "ephemeral"}
_LEAST_BUDGET = 1024
_USUAL_OUTPUT = 32_000


class Sent(NamedTuple):
    """A request's body. `answer_tool` is the tool whose arguments are the answer, where one stands for it."""

    body: dict[str, Any]
    answer_tool: AnswerTool | None


async def body_of(request: ModelRequest, *, route: Route, capabilities: Capabilities) -> Sent:
    """Return the JSON of a request.

    Raises:
        InvalidInput: it asks for a variant that the model does not have, or an attachment cannot be read.
    """
    schema = None
    if request.output is not None and capabilities.structured_output == "native":
        schema = output_schema(thaw(request.output))
        if schema is None:
            capabilities = replace(capabilities, structured_output="tool")
    # The API wants a number, and none above what the model can.
    most = capabilities.max_output_tokens or _USUAL_OUTPUT
    max_tokens = min(request.generation.max_output_tokens or _USUAL_OUTPUT, most)
    thinking = _thinking(request, route, capabilities, max_tokens)
    shown = capabilities.reasoning == "effort" or thinking is not None
    system, messages = await _Messages(route, capabilities, sends_thoughts=shown).of(request)
    body: dict[str, Any] = {
        "model": route.model,
        "max_tokens": max_tokens,
        "messages": messages,
        "system": system or None,
        "thinking": thinking,
        "stop_sequences": list(request.generation.stop) or None,
        "output_config": _output_config(request, route, capabilities, schema) or None,
    }
    if thinking is None:
        body |= _sampling(request, capabilities)
    answer_tool = _add_tools(body, request, capabilities)
    body = stated(body)
    if capabilities.cache_marks:
        _mark(body)
    return Sent(body, answer_tool)


# --- settings ------------------------------------------------------------------------------------


def _thinking(
    request: ModelRequest, route: Route, capabilities: Capabilities, max_tokens: int
) -> _Block | None:
    effort = capabilities.effort(request.variant, model=route.model)
    if effort is None or capabilities.reasoning == "none":
        return None
    if not capabilities.required_with_reasoning and _is_forced(request, capabilities):
        return None  # "Thinking may not be enabled when tool_choice forces tool use."
    if capabilities.reasoning == "effort":
        return {"type": "adaptive", "display": "summarized"}
    if max_tokens <= _LEAST_BUDGET or _misses_thought(request, route):
        return None
    budget = min(int(effort), max_tokens - 1)
    return {"type": "enabled", "budget_tokens": max(_LEAST_BUDGET, budget)}


def _is_forced(request: ModelRequest, capabilities: Capabilities) -> bool:
    """Whether the model has to call a tool."""
    by_output = request.output is not None and capabilities.structured_output == "tool"
    return by_output or (request.tool_choice == "required" and bool(request.tools))


def _misses_thought(request: ModelRequest, route: Route) -> bool:
    """Whether a call since the user last spoke lacks its thought, as one of another provider does.

    Refused with "When `thinking` is enabled, a final `assistant` message must start with a thinking block".
    """
    for message in reversed(list(request.messages)):
        kinds = {type(part) for part in message.parts}
        if message.role == "user" and kinds != {ToolResult}:
            return False
        if message.role == "assistant" and ToolCall in kinds:
            first = message.parts[0]
            if not isinstance(first, Reasoning) or own_blob(first.replay, route) is None:
                return True
    return False


def _sampling(request: ModelRequest, capabilities: Capabilities) -> dict[str, float]:
    sampling = capabilities.sampling_of(request.generation)
    if "temperature" not in sampling:
        return sampling
    # Newer models refuse both at once.
    return {"temperature": min(sampling["temperature"], 1.0)}


def _add_tools(
    body: _Block, request: ModelRequest, capabilities: Capabilities
) -> AnswerTool | None:
    """Offer the tools; return the one that stands for the answer, if there has to be one."""
    tools = [
        {
            "name": tool.name,
            "description": tool.description,
            "input_schema": {"type": "object", **thaw(tool.parameters)},
        }
        for tool in request.tools
    ]
    choice: _Block = {"type": {"required": "any"}.get(request.tool_choice, request.tool_choice)}
    answer_tool = None
    if request.output is not None and capabilities.structured_output == "tool":
        answer_tool = AnswerTool.of(request)
        tools.append(answer_tool.offer(thaw(request.output)))
        forced = request.tool_choice == "none" or not request.tools
        choice = {"type": "tool", "name": answer_tool.name} if forced else {"type": "any"}
    if not tools:
        return None
    if not capabilities.parallel_tools and choice["type"] != "none":
        choice["disable_parallel_tool_use"] = True
    body["tools"] = tools
    if choice != {"type": "auto"}:
        body["tool_choice"] = choice
    return answer_tool


def _output_config(
    request: ModelRequest, route: Route, capabilities: Capabilities, schema: _Block | None
) -> _Block:
    config: _Block = {}
    if capabilities.reasoning == "effort" and request.variant is not None:
        config["effort"] = capabilities.effort(request.variant, model=route.model)
    if schema is not None:
        config["format"] = {"type": "json_schema", "schema": schema}
    return config


# --- messages ------------------------------------------------------------------------------------


class _Messages(NamedTuple):
    """Writes the messages of a request, neighbours of one role as one."""

    route: Route
    capabilities: Capabilities
    sends_thoughts: bool

    async def of(self, request: ModelRequest) -> tuple[list[_Block], list[_Block]]:
        """Return the system prompt's blocks, and the messages."""
        system: list[_Block] = []
        written: list[_Block] = []
        for message in request.messages:
            blocks = await self._blocks(message)
            if message.role == "system":
                system += blocks
            elif blocks and written and written[-1]["role"] == message.role:
                written[-1]["content"] += blocks
            elif blocks:
                written.append({"role": message.role, "content": blocks})
        return system, written

    async def _blocks(self, message: ModelMessage) -> list[_Block]:
        blocks = []
        for part in message.parts:
            block = await self._block(part)
            if block is not None:
                blocks.append(block)
        while message.role == "assistant" and blocks and blocks[-1]["type"] in _THOUGHTS:
            blocks.pop()  # "The final block in an assistant message cannot be `thinking`."
        return blocks

    async def _block(self, part: object) -> _Block | None:
        match part:
            case Text() if not is_blank(part):
                return {"type": "text", "text": part.text}
            case Reasoning() if self.sends_thoughts:
                blob = own_blob(part.replay, self.route)
                return None if blob is None else dict(thaw(blob))
            case ToolCall():
                call = {"id": part.call_id, "name": part.name, "input": thaw(part.args)}
                return {"type": "tool_use", **call}
            case ToolResult():
                return await self._result(part)
            case Attachment():
                return await self._attached(part, is_inlined=True)
            case _:
                return None

    async def _result(self, result: ToolResult) -> _Block:
        content = []
        for part in result.content:
            if isinstance(part, Attachment):
                content.append(await self._attached(part, is_inlined=False))
            elif not is_blank(part):
                content.append({"type": "text", "text": part.text})
        block: _Block = {"type": "tool_result", "tool_use_id": result.call_id}
        if content:
            block["content"] = content
        if result.status != "ok":
            block["is_error"] = True
        return block

    async def _attached(self, attachment: Attachment, *, is_inlined: bool) -> _Block:
        """Return an attachment as a block; what the model cannot take is named.

        The text of a tool's result was left out on purpose, so it is not put back in.
        """
        media = attachment.media_type
        kind = self.capabilities.taken_as(media)
        if kind is None or (media == "text/plain" and not is_inlined):
            return {"type": "text", "text": stand_in(attachment)}
        data = await bytes_of(attachment)
        source = {"type": "base64", "media_type": media, "data": b64encode(data).decode()}
        if kind == "image":
            return {"type": "image", "source": source}
        if media == "text/plain":
            source = {"type": "text", "media_type": media, "data": data.decode(errors="replace")}
        title = {"title": attachment.name} if attachment.name else {}
        return {"type": "document", "source": source, **title}


_THOUGHTS = ("thinking", "redacted_thinking")


# --- cache marks ---------------------------------------------------------------------------------


def _mark(body: _Block) -> None:
    """Mark the ends of what stays: at most four, as many as the API takes."""
    for block in _stable_ends(body):
        block["cache_control"] = dict(_MARK)


def _stable_ends(body: _Block) -> Iterator[_Block]:
    yield from body.get("tools", [])[-1:]
    yield from body.get("system", [])[-1:]
    users = [message for message in body["messages"] if message["role"] == "user"]
    for message in users[-2:]:
        yield message["content"][-1]


# ------------------------------------------------------------------------------------------ schemas


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
        thoughts: list[ReplyPart] = [part for part in parts if isinstance(part, Reasoning)]
        answer = Text(text=canonical.encode(value).decode())
        return [*thoughts, answer], "stop" if terminal == "tool_use" else terminal
