"""Anthropic's Messages API, through its own SDK (the extra `anthropic`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from windlass.kernel.model_call import ModelRequest
from windlass.models.anthropic.request import Sent, body_of
from windlass.models.anthropic.stream import StreamReader
from windlass.models.sdk_model import Prepared, SdkModel, Settings
from windlass.models.server_events import read_reply
from windlass.ports.model import EmitModelEvent

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

_TIMEOUT_S = 300.0
# How often a reply that the provider pauses is continued: each time it may have made ten calls of its own.
_MOST_PAUSES = 8


class AnthropicModel(SdkModel["AsyncAnthropic"]):
    """A model of Anthropic, such as `AnthropicModel("claude-sonnet-4-5")`."""

    provider = "anthropic"

    def __init__(self, model: str, **settings: Unpack[Settings]) -> None:
        settings.setdefault("timeout", _TIMEOUT_S)
        super().__init__(model, **settings)

    async def _prepare(self, request: ModelRequest, emit: EmitModelEvent) -> Prepared:
        sent = await body_of(request, route=self.route, capabilities=self.capabilities)
        return sent, StreamReader(self.route, emit, answer_tool=sent.answer_tool)

    async def _read(self, client: AsyncAnthropic, asked: Sent, reader: StreamReader) -> None:
        """Read a reply, in as many rounds as the provider makes of it."""
        body = asked.body
        for _ in range(_MOST_PAUSES):
            await self._read_round(client, body, asked.headers, reader)
            more = reader.go_on() if reader.is_paused else None
            if more is None:
                return
            said = {"role": "assistant", "content": more.pop("content")}
            body = {**asked.body, **more, "messages": [*asked.body["messages"], said]}
        await self._read_round(client, body, asked.headers, reader)

    async def _read_round(
        self,
        client: AsyncAnthropic,
        body: dict[str, Any],
        headers: dict[str, str],
        reader: StreamReader,
    ) -> None:
        """Read the bytes, not the SDK's models: what is stored is what was sent, and no event is endless."""
        from anthropic import AsyncStream  # noqa: PLC0415 - takes a second, so the first call imports it

        how = {"headers": headers} if headers else {}
        stream = await self._post(client, "/v1/messages", body, AsyncStream[object], **how)
        async with stream:
            await read_reply(stream.response, reader, self.provider)

    def _make_client(self) -> AsyncAnthropic:
        from anthropic import AsyncAnthropic  # noqa: PLC0415 - as above

        return AsyncAnthropic(**self._client_options())
