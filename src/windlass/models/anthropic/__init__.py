"""Anthropic's Messages API, through its own SDK (the extra `anthropic`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from windlass.kernel.model_call import ModelRequest
from windlass.models.anthropic.request import body_of
from windlass.models.anthropic.stream import StreamReader
from windlass.models.sdk_model import Prepared, SdkModel, Settings
from windlass.models.server_events import read_reply
from windlass.ports.model import EmitModelEvent

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

_TIMEOUT_S = 300.0


class AnthropicModel(SdkModel["AsyncAnthropic"]):
    """A model of Anthropic, such as `AnthropicModel("claude-sonnet-4-5")`."""

    provider = "anthropic"

    def __init__(self, model: str, **settings: Unpack[Settings]) -> None:
        settings.setdefault("timeout", _TIMEOUT_S)
        super().__init__(model, **settings)

    async def _prepare(self, request: ModelRequest, emit: EmitModelEvent) -> Prepared:
        sent = await body_of(request, route=self.route, capabilities=self.capabilities)
        return sent.body, StreamReader(self.route, emit, answer_tool=sent.answer_tool)

    async def _read(self, client: AsyncAnthropic, asked: Any, reader: StreamReader) -> None:  # noqa: ANN401 - a body
        """Read the bytes, not the SDK's models: what is stored is what was sent, and no event is endless."""
        from anthropic import AsyncStream  # noqa: PLC0415 - takes a second, so the first call imports it

        async with await self._post(client, "/v1/messages", asked, AsyncStream[object]) as stream:
            await read_reply(stream.response, reader, self.provider)

    def _make_client(self) -> AsyncAnthropic:
        from anthropic import AsyncAnthropic  # noqa: PLC0415 - as above

        return AsyncAnthropic(**self._client_options())
