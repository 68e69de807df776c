"""OpenAI's models, by the Responses API."""

from __future__ import annotations

from typing import Any, Unpack

from windlass.errors import InvalidInput
from windlass.kernel import Attachment, Reasoning, ServerToolCall, Text, ToolCall, ToolResult, thaw
from windlass.kernel.model_call import ModelMessage, ModelRequest, RequestPart, WebSearch
from windlass.models.capabilities import ServerTools, stated
from windlass.models.message_parts import schema_words, stand_in
from windlass.models.openai import parts
from windlass.models.openai.connection import OpenAIModel
from windlass.models.openai_responses.items import message_item, without_containers, without_id
from windlass.models.openai_responses.reader import ResponseReader
from windlass.models.route import own_blob
from windlass.models.sdk_model import Prepared, Settings
from windlass.models.server_events import ReplyReader
from windlass.ports.model import EmitModelEvent


class OpenAIResponsesModel(OpenAIModel):
    """A model behind `/responses`: OpenAI's own, or a server that speaks the same.

    Nothing is stored at the provider (`store=false`); what a model thought comes back encrypted and is
    sent again to the very same route. `reasoning_summary="auto"` also shows its thoughts in words, which
    OpenAI does for organizations that it has verified.
    """

    provider = "openai"
    path = "/responses"

    def __init__(
        self, model: str, *, reasoning_summary: str | None = None, **settings: Unpack[Settings]
    ) -> None:
        super().__init__(model, **settings)
        self._summary = reasoning_summary

    async def _prepare(self, request: ModelRequest, emit: EmitModelEvent) -> Prepared:
        reader = ResponseReader(self.route, emit, wants_value=request.output is not None)
        return await self._body(request), reader

    async def _read(self, client: Any, asked: dict[str, Any], reader: ReplyReader) -> None:  # noqa: ANN401 - as above it
        try:
            await super()._read(client, asked, reader)
        except Exception as refused:
            rest = without_containers(asked["input"]) if _names_container(refused) else None
            if rest is None:
                raise
        else:
            return
        # Out here, where a second refusal does not carry the first one with it.
        await super()._read(client, {**asked, "input": rest}, reader)

    # --- the request ----------------------------------------------------------------------------------

    async def _body(self, request: ModelRequest) -> dict[str, Any]:
        """Return the request's parameters.

        Raises:
            InvalidInput: the model has no such variant, or an attachment cannot be read.
        """
        body: dict[str, Any] = {
            "model": self.route.model,
            "input": [item for message in request.messages for item in await self._items(message)],
            "store": False,
            "prompt_cache_key": parts.cache_key(request),
            "max_output_tokens": self.capabilities.output_limit(request.generation),
            **self.capabilities.sampling_of(request.generation),
        }
        self._add_reasoning(body, request)
        self._add_tools(body, request)
        self._add_output(body, request)
        return stated(body)

    def _add_reasoning(self, body: dict[str, Any], request: ModelRequest) -> None:
        effort = self.capabilities.effort(request.variant, model=self.route.model)
        if self.capabilities.reasoning == "none":
            return
        body["include"] = ["reasoning.encrypted_content"]
        body["reasoning"] = stated({"effort": effort, "summary": self._summary}) or None

    def _add_tools(self, body: dict[str, Any], request: ModelRequest) -> None:
        own = self.capabilities.server_tools(request, provider=self.provider)
        tools: list[dict[str, Any]] = []
        if self.capabilities.tools and request.tools:
            tools = [
                {"type": "function", **parts.function_of(tool), "strict": False}
                for tool in request.tools
            ]
            body["tool_choice"] = request.tool_choice
            body["parallel_tool_calls"] = self.capabilities.parallel_tools
        if own.search is not None:
            tools.append(_search_of(own.search))
            body["max_tool_calls"] = _most_calls(own)
        body["tools"] = [*tools, *own.specs] or None

    def _add_output(self, body: dict[str, Any], request: ModelRequest) -> None:
        if request.output is None:
            return
        if self.capabilities.structured_output != "native" or not parts.is_object_schema(
            request.output
        ):
            words = {"role": "system", "content": schema_words(request.output)}
            body["input"].append(words)
            return
        body["text"] = {"format": {"type": "json_schema", **parts.named_schema(request.output)}}

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
        found = [self._said_item(part) for part in message.parts]
        items = [item for item in found if item is not None]
        while items and items[-1]["type"] == "reasoning":
            items.pop()  # what it led to is not there, and the provider refuses it alone
        return items

    def _said_item(self, part: RequestPart) -> dict[str, Any] | None:
        if isinstance(part, Text):
            return message_item(part.text, own_blob(part.replay, self.route))
        if isinstance(part, ToolCall):
            found = own_blob(part.replay, self.route)
            kept = {} if found is None else thaw(found)
            called = {"call_id": part.call_id, **parts.called(part), **kept}
            return {"type": "function_call", **called}
        if not isinstance(part, (Reasoning, ServerToolCall)):
            return None
        blob = own_blob(part.replay, self.route)
        return None if blob is None else without_id(blob)

    async def _result(self, result: ToolResult) -> dict[str, Any]:
        content = [await self._in_result(part) for part in result.content]
        output: Any = content
        if all(each["type"] == "input_text" for each in content):
            output = "\n".join([each["text"] for each in content])
        return {"type": "function_call_output", "call_id": result.call_id, "output": output}

    async def _in_result(self, part: Text | Attachment) -> dict[str, Any]:
        if isinstance(part, Text):
            return {"type": "input_text", "text": part.text}
        if not self.capabilities.result_images:
            return {"type": "input_text", "text": stand_in(part)}
        return await self._attached(part, is_result=True)

    async def _attached(self, attachment: Attachment, *, is_result: bool = False) -> dict[str, Any]:
        found = await parts.shown(attachment, self.capabilities, is_result=is_result)
        if found.kind == "image":
            return {"type": "input_image", "image_url": found.content, "detail": "auto"}
        if found.kind == "file":
            return {"type": "input_file", "filename": found.name, "file_data": found.content}
        return {"type": "input_text", "text": found.content}


class AzureResponsesModel(OpenAIResponsesModel):
    """A deployment behind `/openai/v1/responses`; the name of the model is that of the deployment."""

    # Not that of Chat Completions, whose blobs this protocol does not take.
    provider = "azure-responses"


def _search_of(search: WebSearch) -> dict[str, Any]:
    filters = {
        name: list(domains)
        for name in ("allowed_domains", "blocked_domains")
        if (domains := getattr(search, name))
    }
    return stated({"type": "web_search", "filters": filters or None})


def _most_calls(own: ServerTools) -> int | None:
    """Return how many calls of its own tools the provider may make.

    Raises:
        InvalidInput: the limit of the searches would hold for other tools, too.
    """
    most = None if own.search is None else own.search.max_uses
    if most is not None and own.specs:
        told = "no limit, or no ServerTool beside it: OpenAI counts the calls of all its tools together"
        raise InvalidInput.at("WebSearch.max_uses", str(most), told)
    return most


def _names_container(refused: Exception) -> bool:
    """Whether a request was refused for a container that is gone: "Expected container_id: cntr_…"."""
    is_refusal = getattr(refused, "status_code", None) in (400, 404)
    return is_refusal and "container" in str(refused).lower()
