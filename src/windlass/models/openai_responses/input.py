"""A request as the Responses API takes it. Nothing is kept at the provider: each request says it all."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.kernel.messages import Attachment, Reasoning, Text, ToolCall, ToolResult
from windlass.kernel.model_call import ModelMessage, ModelRequest
from windlass.kernel.value import thaw
from windlass.models.capabilities import Capabilities, stated
from windlass.models.message_parts import arguments_of, schema_words, stand_in
from windlass.models.openai.parts import (
    cache_key,
    function_of,
    is_object_schema,
    named_schema,
    shown,
)
from windlass.models.route import Route, own_blob


class ResponseInput(msgspec.Struct, frozen=True, kw_only=True):
    """Renders requests for one model. `summary`: how detailed its thoughts are shown; None: not at all."""

    route: Route
    able: Capabilities
    summary: str | None = None

    async def body(self, request: ModelRequest) -> dict[str, Any]:
        """Return the request's parameters.

        Raises:
            InvalidInput: the model has no such variant, or an attachment cannot be read.
        """
        body: dict[str, Any] = {
            "model": self.route.model,
            "input": [item for message in request.messages for item in await self._items(message)],
            "store": False,
            "prompt_cache_key": cache_key(request),
            "max_output_tokens": self.able.output_limit(request.generation),
            **self.able.sampling_of(request.generation),
        }
        self._add_reasoning(body, request)
        self._add_tools(body, request)
        self._add_output(body, request)
        return stated(body)

    def _add_reasoning(self, body: dict[str, Any], request: ModelRequest) -> None:
        effort = self.able.effort(request.variant, model=self.route.model)
        if self.able.reasoning == "none":
            return
        body["include"] = ["reasoning.encrypted_content"]
        body["reasoning"] = stated({"effort": effort, "summary": self.summary}) or None

    def _add_tools(self, body: dict[str, Any], request: ModelRequest) -> None:
        if not request.tools or not self.able.tools:
            return
        body["tools"] = [
            {"type": "function", **function_of(tool), "strict": False} for tool in request.tools
        ]
        body["tool_choice"] = request.tool_choice
        body["parallel_tool_calls"] = self.able.parallel_tools

    def _add_output(self, body: dict[str, Any], request: ModelRequest) -> None:
        if request.output is None:
            return
        if self.able.structured_output != "native" or not is_object_schema(request.output):
            words = {"role": "system", "content": schema_words(request.output)}
            body["input"].append(words)
            return
        body["text"] = {"format": {"type": "json_schema", **named_schema(request.output)}}

    async def _items(self, message: ModelMessage) -> list[dict[str, Any]]:
        if message.role == "assistant":
            return self._said(message)
        items: list[dict[str, Any]] = []
        content: list[dict[str, Any]] = []
        for part in message.parts:
            if isinstance(part, ToolResult):
                items.append(await self._result(part))
            elif isinstance(part, Text):
                content.append({"type": "input_text", "text": part.text})
            elif isinstance(part, Attachment):
                content.append(await self._attached(part))
        if content:
            items.append({"role": message.role, "content": content})
        return items

    def _said(self, message: ModelMessage) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        for part in message.parts:
            if isinstance(part, Text):
                items.append(
                    {
                        "type": "message",
                        "role": "assistant",
                        "content": [{"type": "output_text", "text": part.text}],
                    }
                )
            elif isinstance(part, ToolCall):
                items.append(
                    {
                        "type": "function_call",
                        "call_id": part.call_id,
                        "name": part.name,
                        "arguments": arguments_of(part),
                    }
                )
            elif isinstance(part, Reasoning):
                blob = own_blob(part.replay, self.route)
                if blob is not None:
                    items.append(thaw(blob))
        return items

    async def _result(self, result: ToolResult) -> dict[str, Any]:
        content = [await self._in_result(part) for part in result.content]
        output: Any = content
        if all(each["type"] == "input_text" for each in content):
            output = "\n".join([each["text"] for each in content])
        return {"type": "function_call_output", "call_id": result.call_id, "output": output}

    async def _in_result(self, part: Text | Attachment) -> dict[str, Any]:
        if isinstance(part, Text):
            return {"type": "input_text", "text": part.text}
        if not self.able.result_images:
            return {"type": "input_text", "text": stand_in(part)}
        return await self._attached(part, is_result=True)

    async def _attached(self, attachment: Attachment, *, is_result: bool = False) -> dict[str, Any]:
        found = await shown(attachment, self.able, is_result=is_result)
        if found.kind == "image":
            return {"type": "input_image", "image_url": found.content, "detail": "auto"}
        if found.kind == "file":
            return {"type": "input_file", "filename": found.name, "file_data": found.content}
        return {"type": "input_text", "text": found.content}
