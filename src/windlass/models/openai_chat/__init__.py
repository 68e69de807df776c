"""Models by Chat Completions: OpenAI's own, and every server that speaks it in some dialect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from windlass.guards.secret import Secret
from windlass.kernel.model_call import ModelReply, ModelRequest
from windlass.models.capabilities import Capabilities, capabilities_of
from windlass.models.openai.connection import DEFAULT_TIMEOUT_S, OpenAIConnection
from windlass.models.openai_chat.dialects import Dialect, dialect_named
from windlass.models.openai_chat.input import ChatInput
from windlass.models.openai_chat.reader import ChatReader
from windlass.ports.model import EmitModelEvent

if TYPE_CHECKING:
    from httpx2 import AsyncClient


class OpenAIChatModel:
    """A model behind `/chat/completions`.

    `dialect` names a row of `DIALECTS`, or is one of your own. The rows of `ollama`, `vllm` and `llamacpp`
    look for a server on this machine and need no key; `generic` needs a `base_url` and expects the least.
    """

    def __init__(  # noqa: PLR0913 - the settings of a client
        self,
        model: str,
        *,
        dialect: str | Dialect = "openai",
        base_url: str | None = None,
        api_key: str | Secret | None = None,
        capabilities: Capabilities | None = None,
        timeout: float = DEFAULT_TIMEOUT_S,
        http_client: AsyncClient | None = None,
    ) -> None:
        spoken = dialect_named(dialect) if isinstance(dialect, str) else dialect
        self._connection = OpenAIConnection(
            spoken.provider,
            base_url=base_url,
            api_key=api_key,
            timeout=timeout,
            http_client=http_client,
        )
        self.route = self._connection.route(model)
        self.name = f"{spoken.provider}:{model}"
        self.dialect = spoken
        able = capabilities or capabilities_of(spoken.provider, model)
        self.capabilities = able if spoken.files else replace(able, files=False)
        self._input = ChatInput(route=self.route, able=self.capabilities, dialect=spoken)

    async def complete(self, request: ModelRequest, emit: EmitModelEvent) -> ModelReply:
        """Ask, show what comes, and return the reply once the server has ended it.

        Raises:
            ProviderError: there is no reply.
            InvalidInput: the request cannot be said to this model.
            LimitExceeded: the answer is larger than any reply.
        """
        body = await self._input.body(request)
        wants_value = request.output is not None
        screen = self._connection.screen(emit)
        reader = ChatReader(self.route, self.dialect, screen.emit, wants_value=wants_value)
        return screen.reply(await self._connection.ask("chat", body, reader))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._connection.aclose()
