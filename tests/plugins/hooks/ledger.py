"""What outlives every process of a test: which hooks and bodies ran, what the models were asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.plugins.scene import shown
from windlass import ToolError, tool
from windlass.errors import Unavailable
from windlass.journal.patch import add, append
from windlass.kernel import ModelMessage, ModelReply, ModelRequest, Text
from windlass.kernel.outcomes import Outcome
from windlass.models.scripted import placed
from windlass.ports.plugin import Plugin
from windlass.ports.plugin_turn import PluginTurn
from windlass.ports.tool import Tool
from windlass.testing import FunctionModel

AGAIN = "Once more, please."
QUESTION = ModelRequest(
    model="oracle", messages=(ModelMessage(role="user", parts=(Text(text="Well?"),)),)
)


class Ledger:
    """Lists that no crash takes away."""

    def __init__(self) -> None:
        self.acts: list[str] = []
        self.bodies: list[Any] = []
        self.requests: list[ModelRequest] = []
        self.questions: list[ModelRequest] = []

    def oracle(self) -> FunctionModel:
        """Return a model that plugins ask on their own."""

        def answer(request: ModelRequest) -> str:
            self.questions.append(request)
            return "42"

        return FunctionModel(answer, name="oracle")

    def model(self, replies: Sequence[ModelReply], name: str = "main") -> FunctionModel:
        """Return a model that answers by the place in the conversation, in whichever process it is asked."""

        def answer(request: ModelRequest) -> ModelReply:
            self.requests.append(request)
            place = sum(message.role == "assistant" for message in request.messages)
            return placed(replies[place], place)

        return FunctionModel(answer, name=name)

    def broken_model(self, replies: Sequence[ModelReply]) -> FunctionModel:
        """Return a model that answers only where somebody asks once more."""
        whole = self.model(replies)

        def answer(request: ModelRequest) -> Any:  # noqa: ANN401 - an answer, to be awaited
            if AGAIN not in str(request.messages[-1]):
                raise Unavailable("The line is down.")
            return whole.complete(request, lambda _event: None)

        return FunctionModel(answer, name="main")

    def tool(self) -> Tool:
        """Return a tool that fails at 13."""

        @tool(effect="keyed")
        async def act(x: int) -> str:
            """Act."""
            self.bodies.append(x)
            if x == 13:
                raise ToolError("Bad luck.")
            return f"did {x}"

        return act

    def asked(self, at: int) -> list[str]:
        """Return what a model was shown, message by message."""
        return [shown(message) for message in self.requests[at].messages]


class Acting(Plugin):
    """Base of the plugins here: they note that they act, change state and memory, and wait in the middle of it."""

    name = "acting"

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    async def act(self, turn: PluginTurn, what: str = "acts") -> None:
        """Note it, with a write in the middle: there the process may die."""
        self.ledger.acts.append(what)
        so_far = [*turn.state.get("order", ())]
        turn.patch(**{what: add(1)}, order=append(what))
        # What was there when it ran: another order, or another crash, would show.
        turn.remember(**{what: add(1)}, saw=append([*so_far, what]))
        await turn.attach(b"in the middle of a hook")

    async def after_turn(self, turn: PluginTurn, outcome: Outcome) -> Any:  # noqa: ANN401 - some leave something
        """Let the state be seen in what is committed."""
        turn.remember(state=dict(turn.state))


Make = Callable[[Ledger], Plugin]
