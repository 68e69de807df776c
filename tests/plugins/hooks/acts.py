"""The acts: one for each thing that a hook may do to a turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from tests.plugins.hooks.ledger import AGAIN, Acting
from tests.plugins.hooks.playing import SCRIPT, Act
from windlass.kernel import ModelMessage, ModelReply, ModelRequest, Text
from windlass.kernel.history_view import HistoryView, MessageReplaced
from windlass.kernel.messages import Part, ResultPart, ToolResult
from windlass.kernel.outcomes import Finished, Outcome, Stopped
from windlass.kernel.tool_call import CompletedToolCall, ToolOutcome
from windlass.ports.directives import (
    Abort,
    Continue,
    Delivery,
    Finale,
    Refuse,
    ReplaceArgs,
    Retry,
    ShortCircuit,
    Stop,
)
from windlass.ports.plugin import AskedCall, AtCheckpoint, Trouble
from windlass.ports.plugin_turn import PluginTurn
from windlass.ports.policy import Ask, Deny
from windlass.ports.prompt import Contribution
from windlass.testing import call, say

START = "its start"
ENVIRONMENT = "tools that were looked up"
DECISION = "a decision"
REPLY_HOOKED = "what plugins made of a reply"
PRESENTED = "what plugins made of a result"
ENTERED = "input that came meanwhile"
END = "the turn's end"

WORKED = ("user: Go.", "assistant: act(x=1)", "user: ok: did 1")
# A second call, before whose body all that came before is written down.
TAIL = ("assistant: act(x=5)", "user: ok: did 5", "assistant: Done.")
PLAIN = (*WORKED, *TAIL)
UNLUCKY = (call("act", x=13), call("act", x=5), say("Done."))


# ---------------------------------------------------------------------- the turn begins


class Cleans(Acting):
    async def on_input(self, turn: PluginTurn, parts: tuple[Part, ...]) -> Sequence[Part]:
        await self.act(turn)
        return [Text(text="Cleaned.")]


class Refuses(Acting):
    async def on_input(self, turn: PluginTurn, parts: tuple[Part, ...]) -> Refuse:
        await self.act(turn)
        return Refuse("Not that.")


class Reminds(Acting):
    async def before_turn(self, turn: PluginTurn) -> Sequence[str]:
        await self.act(turn)
        return ["Think of the milk."]


class Aborts(Acting):
    async def before_turn(self, turn: PluginTurn) -> Abort:
        await self.act(turn)
        return Abort("Not today.")


class Prompts(Acting):
    """Says something in one iteration: the first is that of the turn's start."""

    at = 0

    async def prompt(self, turn: PluginTurn) -> Sequence[Contribution] | None:
        if turn.iteration != self.at:
            return [Contribution("Be brief.", slot="intro")] if self.at < turn.iteration else None
        await self.act(turn)
        return [Contribution("Be brief.", slot="intro")]


class PromptsLater(Prompts):
    at = 1


class Views(Acting):
    async def view(self, turn: PluginTurn) -> HistoryView | None:
        if turn.iteration != 1:
            return None
        await self.act(turn)
        last = turn.messages[-1]
        result = ToolResult(call_id="call_0_0", name="act", content=(Text(text="did it"),))
        return HistoryView(replace=(MessageReplaced(id=last.id, parts=(result,)),))


# ---------------------------------------------------------------------- the model


class Whispers(Acting):
    async def before_model(self, turn: PluginTurn, request: ModelRequest) -> ModelRequest | None:
        if turn.iteration != 1:
            return None
        await self.act(turn)
        whisper = ModelMessage(role="user", parts=(Text(text="Psst."),))
        return msgspec.structs.replace(request, messages=(*request.messages, whisper))


class Redirects(Acting):
    async def before_model(self, turn: PluginTurn, request: ModelRequest) -> ModelRequest | None:
        if turn.iteration != 1:
            return None
        await self.act(turn)
        return msgspec.structs.replace(request, model="spare")


class StopsBefore(Acting):
    async def before_model(self, turn: PluginTurn, request: ModelRequest) -> Stop | None:
        if turn.iteration == 0:
            return None
        await self.act(turn)
        return Stop("That will do.")


class Louder(Acting):
    async def after_model(self, turn: PluginTurn, reply: ModelReply) -> ModelReply | None:
        if "acts" in turn.state:
            return None
        await self.act(turn)
        parts = (Text(text="Hm!"), *(part for part in reply.parts if not isinstance(part, Text)))
        return ModelReply(parts=parts, terminal=reply.terminal)


class DropsCalls(Acting):
    async def after_model(self, turn: PluginTurn, reply: ModelReply) -> ModelReply | None:
        await self.act(turn)
        return say("No calls.")


class StopsAfter(Acting):
    async def after_model(self, turn: PluginTurn, reply: ModelReply) -> Stop:
        await self.act(turn)
        return Stop("That will do.")


# ---------------------------------------------------------------------- tools


class Before(Acting):
    """Answers before a tool."""

    answer: Any = None

    async def before_tool(self, turn: PluginTurn, call: AskedCall) -> Any:  # noqa: ANN401 - a directive
        if "acts" in turn.state:
            return None
        await self.act(turn)
        return self.answer


class Replaces(Before):
    answer = ReplaceArgs({"x": 2})


class ShortCircuits(Before):
    answer = ShortCircuit("from the cache")


class Denies(Before):
    answer = Deny(reason="No.")


class Asks(Before):
    answer = Ask(title="Really?")


class After(Acting):
    """Answers after a tool."""

    answer: Any = None

    async def after_tool(self, turn: PluginTurn, call: CompletedToolCall) -> Any:  # noqa: ANN401 - an answer
        if "acts" in turn.state:
            return None
        await self.act(turn)
        return self.answer


class Edits(After):
    answer = ToolOutcome(value="edited")


class Withholds(After):
    answer = Deny(reason="secret")


class Presents(Acting):
    async def present_result(
        self, turn: PluginTurn, call: CompletedToolCall
    ) -> Sequence[ResultPart] | None:
        if "acts" in turn.state:
            return None
        await self.act(turn)
        return [Text(text="in short")]


class Troubled(Acting):
    """Answers what failed, once for each failure."""

    answer: Any = None

    async def on_error(self, turn: PluginTurn, trouble: Trouble) -> Any:  # noqa: ANN401 - a directive
        await self.act(turn)
        return self.answer


class GivesUp(Troubled):
    answer = Stop("Enough.")


class Advises(Troubled):
    answer = Retry("Take another number.")


class GoesOn(Troubled):
    answer = Continue()


class AsksAgain(Troubled):
    answer = Retry(AGAIN)


class AsksAnother(Troubled):
    answer = Retry(model="spare")


# ---------------------------------------------------------------------- between and after


class Enters(Acting):
    """Lets something in after the work, or before the end."""

    at = "after_work"
    answer: Any = Delivery(messages=["By the way."])

    async def at_checkpoint(self, turn: PluginTurn, at: AtCheckpoint) -> Any:  # noqa: ANN401 - a directive
        if at.kind != self.at or "acts" in turn.state:
            return None
        await self.act(turn)
        return self.answer


class EntersUnseen(Enters):
    answer = Delivery(transient=["Between us."])


class StopsThere(Enters):
    answer = Stop("That will do.")


class GoesBack(Enters):
    at = "before_completion"


class Follows(Acting):
    async def after_turn(self, turn: PluginTurn, outcome: Outcome) -> Finale | None:
        if "acts" in turn.memory:
            return None
        await self.act(turn)
        return Finale(messages=["And then?"], issues=["worth a look"])


ACTS = (
    Act(name="on_input", plugin=Cleans, records=START, said=("user: Cleaned.", *PLAIN[1:])),
    Act(
        name="on_input, refused",
        plugin=Refuses,
        records=START,
        said=(),
        outcome=Stopped(reason="refused", detail="Not that."),
        bodies=(),
    ),
    Act(
        name="before_turn", plugin=Reminds, records=START, said=("user: Think of the milk.", *PLAIN)
    ),
    Act(
        name="before_turn, aborted",
        plugin=Aborts,
        records=START,
        said=("user: Go.",),
        outcome=Stopped(reason="refused", detail="Not today."),
        bodies=(),
    ),
    Act(
        name="prompt, at the start",
        plugin=Prompts,
        records=START,
        said=PLAIN,
        asked=("system: Act.\n\nBe brief.", *WORKED),
    ),
    Act(
        name="prompt, later",
        plugin=PromptsLater,
        records=ENVIRONMENT,
        said=PLAIN,
        asked=("system: Act.\n\nBe brief.", *WORKED),
    ),
    Act(
        name="view",
        plugin=Views,
        records=ENVIRONMENT,
        said=PLAIN,
        asked=("system: Act.", *WORKED[:2], "user: ok: did it"),
    ),
    Act(
        name="before_model, a word more",
        plugin=Whispers,
        records="reply 2",
        said=PLAIN,
        asked=("system: Act.", *WORKED, "user: Psst."),
    ),
    Act(name="before_model, another model", plugin=Redirects, records="reply 2", said=PLAIN),
    Act(
        name="before_model, stopped",
        plugin=StopsBefore,
        records=END,
        said=WORKED,
        bodies=(1,),
        outcome=Stopped(reason="limit", detail="That will do."),
    ),
    Act(
        name="after_model, other words",
        plugin=Louder,
        records=REPLY_HOOKED,
        replies=(msgspec.structs.replace(call("act", x=1), text="Hm."), *SCRIPT[1:]),
        said=("user: Go.", "assistant: Hm! | act(x=1)", *PLAIN[2:]),
    ),
    Act(
        name="after_model, no calls",
        plugin=DropsCalls,
        records=REPLY_HOOKED,
        said=("user: Go.", "assistant: No calls."),
        outcome=Finished(text="No calls."),
        bodies=(),
    ),
    Act(
        name="after_model, stopped",
        plugin=StopsAfter,
        records=END,
        said=("user: Go.",),
        outcome=Stopped(reason="limit", detail="That will do."),
        bodies=(),
    ),
    Act(
        name="before_tool, other arguments",
        plugin=Replaces,
        records=DECISION,
        said=(*WORKED[:2], "user: ok: did 2", *TAIL),
        bodies=(2, 5),
    ),
    Act(
        name="before_tool, short-circuited",
        plugin=ShortCircuits,
        records=DECISION,
        said=(*WORKED[:2], "user: ok: from the cache", *TAIL),
        bodies=(5,),
    ),
    Act(
        name="before_tool, denied",
        plugin=Denies,
        records=DECISION,
        said=(*WORKED[:2], "user: denied: No.", *TAIL),
        bodies=(5,),
    ),
    Act(name="before_tool, asked", plugin=Asks, records=DECISION, said=PLAIN),
    Act(
        name="after_tool, edited",
        plugin=Edits,
        records=PRESENTED,
        said=(*WORKED[:2], "user: ok: edited", *TAIL),
    ),
    Act(
        name="after_tool, withheld",
        plugin=Withholds,
        records=PRESENTED,
        said=(*WORKED[:2], "user: ok: (Its result is withheld: secret)", *TAIL),
    ),
    Act(
        name="present_result",
        plugin=Presents,
        records=PRESENTED,
        said=(*WORKED[:2], "user: ok: in short", *TAIL),
    ),
    Act(
        name="on_error of a tool, stopped",
        plugin=GivesUp,
        records=PRESENTED,
        replies=UNLUCKY,
        said=("user: Go.", "assistant: act(x=13)", "user: error: Bad luck."),
        outcome=Stopped(reason="tool_failure", detail="Enough."),
        bodies=(13,),
    ),
    Act(
        name="on_error of a tool, retried",
        plugin=Advises,
        records=PRESENTED,
        replies=UNLUCKY,
        said=(
            "user: Go.",
            "assistant: act(x=13)",
            "user: error: Bad luck.\nTake another number.",
            *TAIL,
        ),
        bodies=(13, 5),
    ),
    Act(
        name="on_error of a tool, as if nothing were",
        plugin=GoesOn,
        records=PRESENTED,
        replies=UNLUCKY,
        said=(
            "user: Go.",
            "assistant: act(x=13)",
            "user: error: Bad luck.",
            *TAIL,
        ),
        bodies=(13, 5),
    ),
    Act(
        name="on_error of a model, asked again",
        plugin=AsksAgain,
        records="reply 1",
        is_broken=True,
        replies=(say("Done."),),
        said=("user: Go.", "assistant: Done."),
        asked=("system: Act.", "user: Go.", f"user: {AGAIN}"),
        asked_at=0,
        bodies=(),
    ),
    Act(
        name="on_error of a model, another asked",
        plugin=AsksAnother,
        records="reply 1",
        is_broken=True,
        replies=(say("Done."),),
        said=("user: Go.", "assistant: Done."),
        bodies=(),
    ),
    Act(
        name="on_error of a model, stopped",
        plugin=GivesUp,
        records=END,
        is_broken=True,
        said=("user: Go.",),
        outcome=Stopped(reason="provider_error", detail="Enough."),
        bodies=(),
    ),
    Act(
        name="at_checkpoint, a message",
        plugin=Enters,
        records=ENTERED,
        said=(*WORKED, "user: By the way.", *TAIL),
    ),
    Act(
        name="at_checkpoint, a message that is not kept",
        plugin=EntersUnseen,
        records=ENTERED,
        said=PLAIN,
        asked=("system: Act.", *WORKED, "user: Between us."),
    ),
    Act(
        name="at_checkpoint, stopped",
        plugin=StopsThere,
        records=END,
        said=WORKED,
        bodies=(1,),
        outcome=Stopped(reason="limit", detail="That will do."),
    ),
    Act(
        name="at_checkpoint, back from the end",
        plugin=GoesBack,
        records=ENTERED,
        said=(*PLAIN, "user: By the way.", "assistant: More."),
        outcome=Finished(text="More."),
    ),
    Act(
        name="after_turn",
        plugin=Follows,
        records=END,
        turns=2,
        said=(*PLAIN, "user: And then?", "assistant: More."),
        issues=("worth a look",),
    ),
)
