"""Models by Chat Completions: OpenAI's own, and every server that speaks it in some dialect."""

from __future__ import annotations

from typing import Any, Unpack

from msgspec.structs import replace

from windlass.errors import InvalidInput
from windlass.kernel.model_call import ModelRequest, WebSearch
from windlass.models.capabilities import stated
from windlass.models.message_parts import schema_words, text_at
from windlass.models.openai import parts
from windlass.models.openai.connection import OpenAIModel
from windlass.models.openai_chat.dialects import Dialect, dialect_named
from windlass.models.openai_chat.messages import ChatMessages, mark_for_cache, strictly_ordered
from windlass.models.openai_chat.reader import TOOL_USE_FAILED, ChatReader
from windlass.models.sdk_model import Prepared, Settings
from windlass.models.server_events import ReplyReader
from windlass.ports.model import EmitModelEvent


class OpenAIChatModel(OpenAIModel):
    """A model behind `/chat/completions`.

    `dialect` names a row of `DIALECTS`, or is one of your own. The rows of `ollama`, `vllm`, `llamacpp` and `lmstudio`
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

    async def _read(self, client: Any, asked: dict[str, Any], reader: ReplyReader) -> None:  # noqa: ANN401 - as above it
        failed = None
        try:
            await super()._read(client, asked, reader)
        except Exception as refused:
            failed = getattr(refused, "body", None)
            if text_at(failed, "code") != TOOL_USE_FAILED:
                raise
        if failed is not None:
            reader.take({"error": failed})

    # --- the request ----------------------------------------------------------------------------------

    async def _body(self, request: ModelRequest) -> dict[str, Any]:
        """Return the request's parameters.

        Raises:
            InvalidInput: the model has no such variant, or an attachment cannot be read.
        """
        dialect, generation = self.dialect, request.generation
        messages = ChatMessages(self.route, dialect, self.capabilities)
        body: dict[str, Any] = {
            "model": self.route.model,
            "messages": [
                said for message in request.messages for said in await messages.written(message)
            ],
            "stream_options": {"include_usage": True} if dialect.usage_option else None,
            "prompt_cache_key": parts.cache_key(request) if dialect.cache_key else None,
            dialect.token_limit_field: self.capabilities.output_limit(generation),
            dialect.seed_field: generation.seed,
            "stop": (list(generation.stop) or None) if self.capabilities.sampling else None,
            **self.capabilities.sampling_of(generation),
        }
        self._add_effort(body, request)
        self._add_tools(body, request)
        self._add_output(body, request)
        for beginning, fields in dialect.extra_fields.items():
            if self.route.model.startswith(beginning):
                body.update(fields)
        if dialect.strict_order:
            body["messages"] = strictly_ordered(body["messages"])
        if self.route.model.startswith(dialect.cache_marks):
            mark_for_cache(body)
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
        wanted = self.capabilities.server_tools(request, provider=self.provider)
        searching = [] if wanted.search is None else [self._search(wanted.search)]
        functions = self._functions(request)
        body["tools"] = [*functions, *searching, *wanted.specs] or None
        if not functions:
            return
        if self.dialect.tool_choice:
            choice = request.tool_choice
            body["tool_choice"] = self.dialect.required_word if choice == "required" else choice
        if self.dialect.parallel_option:
            body["parallel_tool_calls"] = self.capabilities.parallel_tools

    def _functions(self, request: ModelRequest) -> list[dict[str, Any]]:
        if not self.capabilities.tools:
            return []
        if request.tool_choice == "none" and not self.dialect.tool_choice:
            return []  # a server that does not know tool_choice is not offered the tools
        return [{"type": "function", "function": parts.function_of(tool)} for tool in request.tools]

    def _search(self, wanted: WebSearch) -> dict[str, Any]:
        """Return the tool by which a server searches, as OpenRouter has it.

        Raises:
            InvalidInput: this dialect has none.
        """
        if self.dialect.search_tool is None:
            told = "a dialect with a search_tool"
            raise InvalidInput.at("Generation.server_tools", f"WebSearch for {self.provider}", told)
        limits = {
            "max_uses": wanted.max_uses,
            "allowed_domains": list(wanted.allowed_domains) or None,
            "excluded_domains": list(wanted.blocked_domains) or None,
        }
        return {"type": self.dialect.search_tool, "parameters": stated(limits)}

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
