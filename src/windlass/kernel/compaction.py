"""The compaction driver: a turn that asks for a summary of its frame and opens the next one with it.

Law 1. It changes everything or nothing: what a compaction that did not finish said is not kept.
Law 2. It calls no tools and lets nothing in on the way. What arrives meanwhile waits for the new frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from windlass.kernel import events, summary
from windlass.kernel.actions import Action, Append, EmitEvent, Finish, NextIteration, StartModel
from windlass.kernel.chain import Chain
from windlass.kernel.driver import DriverView
from windlass.kernel.messages import ConversationRecord, Message
from windlass.kernel.model_call import WITHHELD, ModelReply, ModelRequest
from windlass.kernel.outcomes import Finished, Stopped
from windlass.kernel.projector import ProjectorView
from windlass.kernel.repair import repair
from windlass.kernel.states import WaitingModel
from windlass.kernel.summary import TELLINGS, is_seed, told
from windlass.kernel.tokens import tokens_of
from windlass.kernel.value import Json

COMPACTION = "compaction"
# The rest is for the prompt, the summary, and what an estimate may be off by.
_SHARE_FOR_TELLING = 0.7
_STARTED_NONE = "A compaction started no such thing."
_WITHHELD = "The summary was withheld."
_TOO_LONG = "The conversation does not fit the model's context window, however shortened."


class CompactionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What may be said about a compaction.

    `window` is the model's, in tokens: with it a history that cannot fit is shortened before it is sent. `keep` is how many
    exchanges are kept in words. `frame` is the id of the frame's first message: once there is a newer frame, nothing is done.
    With `hide` or `attachments` no summary is asked for: the new frame has the same history without those (`repair`).
    """

    instructions: str = ""
    keep: Annotated[int, msgspec.Meta(ge=0)] = 1
    window: Annotated[int, msgspec.Meta(ge=1)] | None = None
    frame: str | None = None
    hide: tuple[str, ...] = ()
    attachments: bool = False


NO_OPTIONS = CompactionOptions()


class CompactionDriver:
    """One request for a summary; a shorter one as long as the model has no room for it."""

    handles = frozenset({"output_limit", "context_overflow"})

    def __init__(self, options: CompactionOptions = NO_OPTIONS) -> None:
        self._options = options

    def prepare(self, view: DriverView) -> list[Action]:
        """Ask for a summary, if there is anything to sum up; a repair asks for nothing."""
        options = self._options
        if options.hide or options.attachments:
            return repair(view, options.hide, attachments=options.attachments)
        if not self._is_due(view.messages):
            return [Finish(outcome=Finished(text=""))]
        at = self._first_telling(view.messages) + view.iteration - view.iteration_offset
        return [StartModel(request=self._request(view, at), driver_state={"telling": at})]

    def on_model(
        self,
        view: DriverView,
        waiting: WaitingModel,
        reply: ModelReply,
        text_streamed: bool,  # noqa: FBT001 - the port's shape
    ) -> list[Action]:
        """Open a frame with the summary, or end and leave all as it was."""
        done: list[Action] = []
        if reply.text and not text_streamed:
            done.append(EmitEvent(event=events.TextDelta(text=reply.text)))
        done.append(EmitEvent(event=events.ModelFinished.of(reply, iteration=view.iteration)))
        if reply.terminal == "context_overflow":
            if _telling(waiting) + 1 < len(TELLINGS):
                return [*done, NextIteration()]
            return done + _give_up(Stopped(reason="provider_error", detail=_TOO_LONG), reply)
        if reply.terminal == WITHHELD:
            detail = reply.diagnostic or _WITHHELD
            return done + _give_up(Stopped(reason="refused", detail=detail), reply)
        found = summary.read_summary(reply, summary.size_of(view.messages))
        if isinstance(found, Stopped):
            return done + _give_up(found, reply)
        message_id, keep = view.message_id("summary"), self._options.keep
        message = summary.seed(message_id, found, view.messages, keep=keep)
        done.append(Append(records=(ConversationRecord(message=message),)))
        return [*done, Finish(outcome=Finished(text=found))]

    def on_tools(self, *_: object, **__: object) -> list[Action]:
        """This mode runs no tools, and no code."""
        return [Finish(outcome=Stopped(reason="runtime_error", detail=_STARTED_NONE))]

    on_code = on_tools

    def close(self, *_: object, **__: object) -> list[Action]:
        """There is no call to close."""
        return []

    def _is_due(self, history: Sequence[Message]) -> bool:
        """Whether there is more than an earlier summary, and still the frame that was meant."""
        if not history or (len(history) == 1 and is_seed(history[0])):
            return False
        return self._options.frame is None or history[0].id == self._options.frame

    def _first_telling(self, history: Sequence[Message]) -> int:
        window = self._options.window
        if window is None:
            return 0
        room = window * _SHARE_FOR_TELLING
        for at, telling in enumerate(TELLINGS):
            if sum(map(tokens_of, told(history, telling))) <= room:
                return at
        return len(TELLINGS) - 1

    def _request(self, view: DriverView, at: int) -> ModelRequest:
        telling = TELLINGS[min(at, len(TELLINGS) - 1)]
        messages = told(view.messages, telling, instructions=self._options.instructions)
        return view.config.projector.project(
            ProjectorView(
                config=view.config,
                messages=Chain(messages),
                iteration=view.iteration,
                use_tools=False,
            )
        )


def compaction_with(said: Json) -> CompactionDriver:
    """Return the driver of a compaction of which this was said; what makes no sense was not said."""
    try:
        options = msgspec.convert(said, CompactionOptions)
    except (msgspec.ValidationError, ValueError):
        # Any plugin may have written it, and a turn that cannot begin would stop the session.
        options = NO_OPTIONS
    return CompactionDriver(options)


def _telling(waiting: WaitingModel) -> int:
    state = waiting.driver_state
    return int(state["telling"]) if isinstance(state, dict) else 0


def _give_up(outcome: Stopped, reply: ModelReply) -> list[Action]:
    error = events.Error(message=outcome.detail, code="summary_invalid", terminal=reply.terminal)
    return [EmitEvent(event=error), Finish(outcome=outcome)]
