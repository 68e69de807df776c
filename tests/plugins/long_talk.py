"""Long talks made by hand: turns with calls and outputs of any size, and what a model is shown of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.plugins.fake_turn import FakeHost, FakeTurn
from windlass.journal import UsageLine
from windlass.kernel import (
    Attachment,
    Chain,
    ChatProjector,
    HistoryView,
    InputOrigin,
    Message,
    ModelRequest,
    Part,
    ProjectorView,
    StandardDriver,
    Text,
    ToolCall,
    ToolResult,
    TurnConfig,
    Usage,
)
from windlass.kernel.history_view import WHOLE
from windlass.plugins.context_window import ContextWindow

CLEARED = "(output of look cleared to save space)"
PNG = Attachment(ref="b1", media_type="image/png", name="cat.png")


def tokens(n: int) -> str:
    """Return words that are estimated at so many tokens."""
    return "word" * n


def asks(turn: int, *parts: Part, n_tokens: int = 10) -> Message:
    """Return the input of a turn."""
    said = (Text(text=tokens(n_tokens)), *parts)
    return Message(id=f"u{turn}", role="user", parts=said, origin=InputOrigin(turn_id=f"t{turn}"))


def step(turn: int, at: int, *outputs: int | Part) -> list[Message]:
    """Return a reply with calls, and their results of so many tokens."""
    names = [f"c{turn}-{at}-{n}" for n in range(len(outputs))]
    contents = [
        Text(text=tokens(output)) if isinstance(output, int) else output for output in outputs
    ]
    return [
        Message(
            id=f"a{turn}-{at}",
            role="assistant",
            parts=tuple([ToolCall(call_id=name, name="look") for name in names]),
        ),
        Message(
            id=f"r{turn}-{at}",
            role="user",
            parts=tuple(
                [
                    ToolResult(call_id=name, name="look", content=(content,))  # type: ignore[arg-type]
                    for name, content in zip(names, contents, strict=True)
                ]
            ),
        ),
    ]


def answer(turn: int, n_tokens: int = 10) -> Message:
    """Return the words that a turn ended with."""
    parts = (Text(text=tokens(n_tokens)),)
    return Message(id=f"a{turn}", role="assistant", parts=parts)


def whole_turn(turn: int, *outputs: int) -> list[Message]:
    """Return a turn that made one call for each output, one after the other."""
    steps = [message for at, output in enumerate(outputs) for message in step(turn, at, output)]
    return [asks(turn), *steps, answer(turn)]


class Talk:
    """A session as its plugin sees it, from one request to the next."""

    def __init__(self, plugin: ContextWindow, **host: Any) -> None:
        self.plugin = plugin
        self.host = FakeHost()
        self.history: Chain[Message] = Chain()
        for field, value in host.items():
            setattr(self.host, field, value)

    def begin(self, *messages: Message) -> None:
        """Begin a turn: what was said before is not its own any more."""
        self.host.states.clear()
        self.host.usage = ()
        self.host.turn_messages = ()
        self.add(*messages)

    def add(self, *messages: Message) -> None:
        """Let the turn that runs go on."""
        self.history += messages
        self.host.messages = self.history
        self.host.turn_messages = (*self.host.turn_messages, *messages)

    def past(self, *messages: Message) -> None:
        """Let earlier turns have been."""
        self.history += messages
        self.host.messages = self.history

    async def look(self) -> HistoryView:
        """Return the view of the iteration that begins."""
        turn = FakeTurn(self.plugin.name, self.host)
        view = await self.plugin.view(turn)
        turn.settle()
        return view or WHOLE

    async def ask(self, counted: float | None = None) -> ModelRequest:
        """Return the next request; a provider counts `counted` tokens for each that was estimated."""
        request = self.request(await self.look())
        turn = FakeTurn(self.plugin.name, self.host)
        await self.plugin.before_model(turn, request)
        turn.settle()
        if counted is not None:
            estimate = self.host.states[self.plugin.name]["sent"]["tokens"]
            self.count(round(estimate * counted))
        return request

    def count(self, prompt: int, *, lost: int = 0, source: str = "turn") -> None:
        """Let a model call have been counted."""
        usage = Usage(input_tokens=prompt, output_tokens=5)
        line = UsageLine(source=source, model="m", calls=1, lost=lost, usage=usage)
        known = self.host.usage
        if known and known[0].source == source:
            line, known = known[0].plus(line), known[1:]
        self.host.usage = (line, *known)

    def request(self, view: HistoryView) -> ModelRequest:
        """Return what is sent under a view."""
        config = TurnConfig(
            driver=StandardDriver(),
            model="m",
            session_id="s",
            turn_id="t",
            system_prompt=self.host.system_prompt,
            tools=self.host.tools,
            view=view,
        )
        return ChatProjector().project(ProjectorView(config=config, messages=self.history))


def shown(request: ModelRequest) -> list[str]:
    """Return each message in a word: how many tokens of text, calls, and results with theirs."""
    return ["|".join(_part(part) for part in message.parts) for message in request.messages]


def _part(part: Any) -> str:  # noqa: ANN401 - any part
    if isinstance(part, ToolCall):
        return f"?{part.call_id}"
    if isinstance(part, ToolResult):
        return f"!{part.call_id}:{_content(part.content)}"
    return _content((part,))


def _content(parts: Sequence[Any]) -> str:
    words = [part.text if isinstance(part, Text) else f"<{part.name}>" for part in parts]
    text = "+".join(words)
    return str(len(text) // 4) if set(text) <= set("word") else text


def window(usable: int, **more: Any) -> ContextWindow:
    """Return a plugin with so many tokens for requests."""
    return ContextWindow(window=usable + 100, reserve=100, **more)


def events(talk: Talk) -> list[str]:
    """Return the names of what was shown to those who watch."""
    return [name for _, name, _ in talk.host.emitted]


def long_words(n_turns: int, n_tokens: int = 250) -> list[Message]:
    """Return turns of words alone."""
    return [
        message
        for turn in range(1, n_turns + 1)
        for message in (asks(turn, n_tokens=n_tokens), answer(turn, n_tokens))
    ]
