"""OpenAI's models, by the Responses API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.guards.secret import Secret
from windlass.kernel.model_call import ModelReply, ModelRequest
from windlass.models.capabilities import Capabilities, capabilities_of
from windlass.models.openai.connection import DEFAULT_TIMEOUT_S, OpenAIConnection
from windlass.models.openai_responses.input import ResponseInput
from windlass.models.openai_responses.reader import ResponseReader
from windlass.ports.model import EmitModelEvent

if TYPE_CHECKING:
    from httpx2 import AsyncClient


class OpenAIResponsesModel:
    """A model behind `/responses`: OpenAI's own, or a server that speaks the same.

    Nothing is stored at the provider (`store=false`); what a model thought comes back encrypted and is
    sent again to the very same route. `reasoning_summary="auto"` also shows its thoughts in words, which
    OpenAI does for organizations that it has verified.
    """

    def __init__(  # noqa: PLR0913 - the settings of a client
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | Secret | None = None,
        capabilities: Capabilities | None = None,
        timeout: float = DEFAULT_TIMEOUT_S,
        http_client: AsyncClient | None = None,
        reasoning_summary: str | None = None,
    ) -> None:
        self._connection = OpenAIConnection(
            "openai", base_url=base_url, api_key=api_key, timeout=timeout, http_client=http_client
        )
        self.route = self._connection.route(model)
        self.name = f"openai:{model}"
        self.capabilities = capabilities or capabilities_of("openai", model)
        self._input = ResponseInput(
            route=self.route, able=self.capabilities, summary=reasoning_summary
        )

    async def complete(self, request: ModelRequest, emit: EmitModelEvent) -> ModelReply:
        """Ask, show what comes, and return the reply once the provider has ended it.

        Raises:
            ProviderError: there is no reply.
            InvalidInput: the request cannot be said to this model.
            LimitExceeded: the answer is larger than any reply.
        """
        body = await self._input.body(request)
        screen = self._connection.screen(emit)
        reader = ResponseReader(self.route, screen.emit, wants_value=request.output is not None)
        return screen.reply(await self._connection.ask("responses", body, reader))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._connection.aclose()
