"""OpenAI's models, by the Responses API."""

from __future__ import annotations

from typing import Any, Unpack

from windlass.kernel.model_call import ModelRequest
from windlass.models.openai.connection import OpenAIModel
from windlass.models.openai_responses.input import ResponseInput
from windlass.models.openai_responses.reader import ResponseReader
from windlass.models.sdk_model import Settings
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

    async def _prepare(
        self, request: ModelRequest, emit: EmitModelEvent
    ) -> tuple[dict[str, Any], ResponseReader]:
        written = ResponseInput(route=self.route, able=self.capabilities, summary=self._summary)
        reader = ResponseReader(self.route, emit, wants_value=request.output is not None)
        return await written.body(request), reader
