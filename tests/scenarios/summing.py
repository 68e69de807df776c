"""A model that talks, works, and sums up when it is asked to."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.scenarios.readings import words
from windlass import Runtime, Session
from windlass.errors import Unavailable
from windlass.kernel import ModelReply, ModelRequest, Text, ToolResult, canonical
from windlass.kernel.summary import SEED
from windlass.testing import FunctionModel, call

WISH = "[compaction]"


def is_wish(request: ModelRequest) -> bool:
    """Whether a request asks for a summary."""
    return words(request.messages[-1].parts).startswith(WISH)


class Summing:
    """Answers what is said with `heard: …`; on the word "work" it works first. `summaries` are played in order."""

    def __init__(self, *summaries: ModelReply | str | Exception, is_open: bool = True) -> None:
        self.summaries = list(summaries)
        self.model = FunctionModel(self._answer, name="m")
        # A summary is given through this gate.
        self.asked = asyncio.Event()
        self.gate = asyncio.Event()
        if is_open:
            self.gate.set()

    async def _answer(self, request: ModelRequest) -> ModelReply | str:
        last = request.messages[-1]
        if is_wish(request):
            self.asked.set()
            await self.gate.wait()
            summary = self.summaries.pop(0) if self.summaries else "<summary>SUM</summary>"
            if isinstance(summary, Exception):
                raise summary
            return summary
        if any(isinstance(part, ToolResult) for part in last.parts):
            return "worked"
        said = "".join(part.text for part in last.parts if isinstance(part, Text))
        return call("work", n=1) if "work" in said else f"heard: {said}"

    @property
    def wishes(self) -> list[ModelRequest]:
        """The requests for a summary."""
        return [request for request in self.model.requests if is_wish(request)]


DOWN = Unavailable("the provider is down")
SUM = f"{SEED}SUM\n\n[the last words before this point]\nuser: Two.\nassistant: heard: Two."


async def talked(session: Session[Any], *said: str) -> None:
    """Let a session have some turns."""
    for at, one in enumerate(said or ("Go and work.", "Two.")):
        await session.run(one, turn_id=f"t{at}")


async def stored(runtime: Runtime[Any], session_id: str = "s") -> list[bytes]:
    """Return what the store has of each turn's nodes, as bytes."""
    view = await runtime._services.store.load_session(session_id)
    return [canonical.encode(page.nodes) for page in view.pages]
