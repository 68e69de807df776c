"""Models by Chat Completions: OpenAI's own, and every server that speaks it in some dialect."""

from __future__ import annotations

from typing import Any, Unpack

from msgspec.structs import replace

from windlass.kernel import Attachment, Reasoning, Text, ToolCall, ToolResult, thaw
from windlass.kernel.model_call import ModelMessage, ModelRequest
from windlass.models.capabilities import stated
from windlass.models.message_parts import result_words, schema_words, stand_in
from windlass.models.openai import parts
from windlass.models.openai.connection import OpenAIModel
from windlass.models.openai_chat.dialects import Dialect, dialect_named
from windlass.models.openai_chat.reader import ChatReader
from windlass.models.route import own_blob
from windlass.models.sdk_model import Prepared, Settings
from windlass.ports.model import EmitModelEvent


class OpenAIChatModel(OpenAIModel):
    """A model behind `/chat/completions`.

    `dialect` names a row of `DIALECTS`, or is one of your own. The rows of `ollama`, `vllm` and `llamacpp`
    look for a server on this machine and need no key; `generic` needs a `base_url` and expects the least.
    """

    path = "/chat/completions"

    def __init__(
        self, model: str, *, dialect: str | Dialect = "openai", **settings: Unpack[Settings]
    ) -> None:
        self.dialect = dialect_named(dialect) if isinstance(dialect, str) else dialect
        self.provider = self.dialect.provider
        super().__init__(model, **settings)
        if not self.dialect.files:
            self.capabilities = replace(self.capabilities, files=False)

    async def _prepare(self, request: ModelRequest, emit: EmitModelEvent) -> Prepared:
        wants_value = request.output is not None
        reader = ChatReader(self.route, self.dialect, emit, wants_value=wants_value)
        return await self._body(request), reader

    # --- the request ----------------------------------------------------------------------------------

    async def _body(self, request: ModelRequest) -> dict[str, Any]:
        """Return the request's parameters.

        Raises:
            InvalidInput: the model has no such variant, or an attachment cannot be read.
        """
        dialect, generation = self.dialect, request.generation
        body: dict[str, Any] = {
            "model": self.route.model,
            "messages": [
                said for message in request.messages for said in await self._messages(message)
            ],
            "stream_options": {"include_usage": True} if dialect.usage_option else None,
            "prompt_cache_key": parts.cache_key(request) if dialect.cache_key else None,
            dialect.token_limit_field: self.capabilities.output_limit(generation),
            "seed": generation.seed,
            "stop": (list(generation.stop) or None) if self.capabilities.sampling else None,
            **self.capabilities.sampling_of(generation),
        }
        self._add_effort(body, request)
        self._add_tools(body, request)
        self._add_output(body, request)
        return stated(body)

    def _add_effort(self, body: dict[str, Any], request: ModelRequest) -> None:
        effort = self.capabilities.effort(request.variant, model=self.route.model)
        if effort is None or self.dialect.effort_field is None:
            return
        if self.dialect.effort_field == "reasoning":
            body["reasoning"] = {"effort": effort}
        else:
            body["reasoning_effort"] = effort

    def _add_tools(self, body: dict[str, Any], request: ModelRequest) -> None:
        if not request.tools or not self.capabilities.tools:
            return
        if request.tool_choice == "none" and not self.dialect.tool_choice:
            return  # a server that does not know tool_choice is not offered the tools
        body["tools"] = [
            {"type": "function", "function": parts.function_of(tool)} for tool in request.tools
        ]
        if self.dialect.tool_choice:
            body["tool_choice"] = request.tool_choice
        if self.dialect.parallel_option:
            body["parallel_tool_calls"] = self.capabilities.parallel_tools

    def _add_output(self, body: dict[str, Any], request: ModelRequest) -> None:
        schema = request.output
        if schema is None:
            return
        is_native = self.capabilities.structured_output == "native" and parts.is_object_schema(
            schema
        )
        support = self.dialect.schema if is_native else "none"
        if support != "json_schema":
            body["messages"].append({"role": "system", "content": schema_words(schema)})
            if support == "json_object":
                body["response_format"] = {"type": "json_object"}
            return
        named = parts.named_schema(schema, is_closed=self.dialect.strict_schema)
        body["response_format"] = {"type": "json_schema", "json_schema": named}

    async def _messages(self, message: ModelMessage) -> list[dict[str, Any]]:
        if message.role == "assistant":
            return self._said(message)
        if message.role == "system":
            words = [part.text for part in message.parts if isinstance(part, Text)]
            return [{"role": "system", "content": "\n\n".join(words)}]
        results: list[dict[str, Any]] = []
        content: list[dict[str, Any]] = []
        for part in message.parts:
            if isinstance(part, ToolResult):
                results.append(_result(part))
                content += await self._beside(part)
            elif isinstance(part, Text):
                content.append({"type": "text", "text": part.text})
            elif isinstance(part, Attachment):
                content.append(await self._attached(part))
        return [*results, *_user(content)]

    def _said(self, message: ModelMessage) -> list[dict[str, Any]]:
        words = [part.text for part in message.parts if isinstance(part, Text)]
        calls = [part for part in message.parts if isinstance(part, ToolCall)]
        said: dict[str, Any] = {"role": "assistant", "content": "".join(words) or None}
        if calls:
            said["tool_calls"] = [
                {"id": call.call_id, "type": "function", "function": parts.called(call)}
                for call in calls
            ]
        elif not words:
            return []
        for part in message.parts:
            if isinstance(part, Reasoning):
                said.update(thaw(own_blob(part.replay, self.route)) or {})
        return [said]

    async def _beside(self, result: ToolResult) -> list[dict[str, Any]]:
        """Return the images of a result, which may only stand in a user's message."""
        found: list[dict[str, Any]] = []
        for part in result.content:
            if isinstance(part, Attachment) and part.media_type in self.capabilities.image_types:
                image = await self._attached(part)
                if image["type"] == "image_url":
                    about = f"{stand_in(part)} of the result of {result.name}:"
                    found += [{"type": "text", "text": about}, image]
        return found

    async def _attached(self, attachment: Attachment) -> dict[str, Any]:
        found = await parts.shown(attachment, self.capabilities)
        if found.kind == "image":
            return {"type": "image_url", "image_url": {"url": found.content}}
        if found.kind == "file":
            return {"type": "file", "file": {"filename": found.name, "file_data": found.content}}
        return {"type": "text", "text": found.content}


def _result(result: ToolResult) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": result.call_id, "content": result_words(result)}


def _user(content: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a user's message; words alone as plain text, which every server takes."""
    if not content:
        return []
    if all(part["type"] == "text" for part in content):
        return [{"role": "user", "content": "\n\n".join([part["text"] for part in content])}]
    return [{"role": "user", "content": content}]
