"""A request as Anthropic's Messages API wants it.

Law 1. A request is valid whichever model answered before: thoughts and what the provider's own tools found go only
    to the route that made them, and thinking is not asked for where the API would miss a thought.
Law 2. The stable prefix is marked for the cache: tools, system, the user's last two messages.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from typing import Any, NamedTuple

from msgspec.structs import replace

from windlass.kernel import thaw
from windlass.kernel.messages import (
    Attachment,
    Reasoning,
    ServerToolCall,
    Text,
    ToolCall,
    ToolResult,
    is_blank,
)
from windlass.kernel.model_call import ModelMessage, ModelRequest
from windlass.models.anthropic.answer import AnswerTool, output_schema
from windlass.models.anthropic.server_tools import Said, headers_for, offers_of, settle
from windlass.models.capabilities import Capabilities, stated
from windlass.models.message_parts import bytes_of, stand_in
from windlass.models.route import Route, own_blob

_Block = dict[str, Any]
_MARK = {"type": "ephemeral"}
_LEAST_BUDGET = 1024
_USUAL_OUTPUT = 32_000


class Sent(NamedTuple):
    """A request's body, and the headers that it needs.

    `answer_tool` is the tool whose arguments are the answer, where one stands for it.
    """

    body: dict[str, Any]
    answer_tool: AnswerTool | None
    headers: dict[str, str]


async def body_of(request: ModelRequest, *, route: Route, capabilities: Capabilities) -> Sent:
    """Return the JSON of a request.

    Raises:
        InvalidInput: it asks for a variant or a tool that the model does not have, or an attachment cannot be read.
    """
    offers = offers_of(capabilities.server_tools(request, provider=route.provider), request)
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
    writer = _Messages(route, capabilities, sends_thoughts=shown)
    system, messages = await writer.of(request, offers)
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
    answer_tool = _add_tools(body, request, capabilities, offers)
    body = stated(body)
    if capabilities.cache_marks:
        _mark(body)
    return Sent(body, answer_tool, headers_for(offers))


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

    Refused with "When `thinking` is enabled, a final `assistant` message must start with a thinking block
    (preceeding the lastmost set of `tool_use` and `tool_result` blocks)". So words beside results end nothing.
    """
    follow_results = False
    for message in reversed(list(request.messages)):
        kinds = {type(part) for part in message.parts}
        if message.role == "user":
            follow_results = follow_results or ToolResult in kinds
        elif message.role == "assistant":
            if not follow_results:
                return False
            first = message.parts[0]
            if ToolCall in kinds and (
                not isinstance(first, Reasoning) or own_blob(first.replay, route) is None
            ):
                return True
            follow_results = False
    return False


def _sampling(request: ModelRequest, capabilities: Capabilities) -> dict[str, float]:
    sampling = capabilities.sampling_of(request.generation)
    if "temperature" not in sampling:
        return sampling
    # Newer models refuse both at once.
    return {"temperature": min(sampling["temperature"], 1.0)}


def _add_tools(
    body: _Block, request: ModelRequest, capabilities: Capabilities, offers: list[_Block]
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
    choice = _choice(request)
    # Behind the functions: whether one is offered does not change what the cache holds of those.
    tools += offers
    answer_tool = None
    if request.output is not None and capabilities.structured_output == "tool":
        answer_tool = AnswerTool.of(request)
        tools.append(answer_tool.offer(thaw(request.output)))
        forced = request.tool_choice == "none" or not (request.tools or offers)
        choice = {"type": "tool", "name": answer_tool.name} if forced else {"type": "any"}
    if not tools:
        return None
    if not capabilities.parallel_tools and choice["type"] != "none":
        choice["disable_parallel_tool_use"] = True
    body["tools"] = tools
    if choice != {"type": "auto"}:
        body["tool_choice"] = choice
    return answer_tool


def _choice(request: ModelRequest) -> _Block:
    """Return which tools the model may call: a call that is required is one of the request's own tools."""
    if request.tool_choice == "required":
        return {"type": "any" if request.tools else "auto"}
    return {"type": request.tool_choice}


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
    """Writes the messages of a request."""

    route: Route
    capabilities: Capabilities
    sends_thoughts: bool

    async def of(
        self, request: ModelRequest, offers: list[_Block]
    ) -> tuple[list[_Block], list[_Block]]:
        """Return the system prompt's blocks, and the messages."""
        system: list[_Block] = []
        talk: list[Said] = []
        for message in request.messages:
            blocks = await self._blocks(message)
            if message.role == "system":
                system += blocks
            elif blocks:
                talk.append((message.role, blocks))
        settle(talk, offers)
        return system, _as_turns(talk)

    async def _blocks(self, message: ModelMessage) -> list[_Block]:
        blocks = []
        for part in message.parts:
            if isinstance(part, ServerToolCall):
                blocks += thaw(own_blob(part.replay, self.route) or [])
                continue
            block = await self._block(part)
            if block is not None:
                blocks.append(block)
        return blocks

    async def _block(self, part: object) -> _Block | None:
        match part:
            case Text() if not is_blank(part):
                cited = thaw(own_blob(part.replay, self.route) or {})
                return {"type": "text", "text": part.text, **cited}
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


def _as_turns(talk: list[Said]) -> list[_Block]:
    """Return messages that take turns: neighbours of one role are one."""
    written: list[_Block] = []
    for role, blocks in talk:
        while role == "assistant" and blocks and blocks[-1]["type"] in _THOUGHTS:
            blocks.pop()  # "The final block in an assistant message cannot be `thinking`."
        if blocks and written and written[-1]["role"] == role:
            written[-1]["content"] += blocks
        elif blocks:
            written.append({"role": role, "content": blocks})
    return written


# --- cache marks ---------------------------------------------------------------------------------


def _mark(body: _Block) -> None:
    """Mark the ends of what stays: at most four, as many as the API takes."""
    for block in _stable_ends(body):
        block["cache_control"] = dict(_MARK)


def _stable_ends(body: _Block) -> Iterator[_Block]:
    tools = body.get("tools", [])
    # A tool in the user's own words may have its mark already.
    if not any("cache_control" in tool for tool in tools):
        # "Tools with `defer_loading` cannot have `cache_control` set."
        yield from [tool for tool in tools if not tool.get("defer_loading")][-1:]
    yield from body.get("system", [])[-1:]
    users = [message for message in body["messages"] if message["role"] == "user"]
    for message in users[-2:]:
        yield message["content"][-1]
