"""Models by Chat Completions: OpenAI's own, and every server that speaks it in some dialect."""

from __future__ import annotations

from typing import Any, Unpack

from msgspec.structs import replace

from windlass.kernel.model_call import ModelRequest
from windlass.models.openai.connection import OpenAIModel
from windlass.models.openai_chat.dialects import Dialect, dialect_named
from windlass.models.openai_chat.input import ChatInput
from windlass.models.openai_chat.reader import ChatReader
from windlass.models.sdk_model import Settings
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

    async def _prepare(
        self, request: ModelRequest, emit: EmitModelEvent
    ) -> tuple[dict[str, Any], ChatReader]:
        written = ChatInput(route=self.route, able=self.capabilities, dialect=self.dialect)
        wants_value = request.output is not None
        reader = ChatReader(self.route, self.dialect, emit, wants_value=wants_value)
        return await written.body(request), reader
