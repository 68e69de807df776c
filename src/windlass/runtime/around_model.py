"""The hooks around a model call: before it is sent, while it streams, when it fails, and once its reply is recorded.

Law 1. In a turn whose start record says so, each reply is recorded as looked at once its hooks have run, also when they
    changed nothing. What is recorded so is not shown to them again.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from windlass.errors import CallerError, InvalidInput, ProviderError, ToolError
from windlass.guards.secret import REGISTERED
from windlass.journal import ModelAnswered, ModelHooksCommand, ReplyHooked, RequestSpec
from windlass.kernel import Stopped, Text, ToolCall, canonical, events
from windlass.kernel.messages import is_blank
from windlass.kernel.model_call import (
    STOP,
    WITHHELD,
    ModelFailure,
    ModelMessage,
    ModelReply,
    ModelRequest,
    Usage,
)
from windlass.ports.directives import Hold, Send, Stop, Withhold
from windlass.ports.key_screen import KeyScreen
from windlass.ports.plugin import Chunk, Trouble
from windlass.runtime.answers import read_answer
from windlass.runtime.hooked_turn import Patches
from windlass.runtime.hooks import Call, Hooks, after_error, stopped, unusable
from windlass.runtime.turn_signals import ParkTurn, PluginFault, TurnOver

_MAX_WAIT_S = 300.0
_LEFT_NOTHING = "an empty reply; return Withhold(feedback) to withhold one"


class Again(NamedTuple):
    """The call is to be made once more, like this."""

    request: ModelRequest
    wait_s: float


class ModelHooks:
    """Asks the plugins of one turn about its model calls."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._turn = hooks.turn
        self._records_looks = hooks.records_looks("model")
        self._streaming = hooks.start("on_stream", "")
        self._on_stream = tuple(self._streaming)
        having = hooks.plugins.having
        self.sees_requests = bool(having("before_model"))
        self.sees_streams = bool(self._on_stream)
        self.sees_replies = self._records_looks or bool(having("after_model"))

    def take_up(self, answered: ModelAnswered) -> None:
        """Apply what the hooks of a recorded call changed."""
        self._hooks.take_up(answered.patches, answered.issues)

    def answered(
        self, result: ModelReply | ModelFailure, sent: RequestSpec | None, *, is_shown: bool
    ) -> ModelAnswered:
        """Return what is recorded of a call: what came back, and what hooks changed and noted meanwhile."""
        return ModelAnswered(
            result=result,
            text_streamed=is_shown,
            sent=sent,
            patches=self._hooks.place.take(),
            issues=self._hooks.place.take_issues(),
        )

    # ------------------------------------------------------------------ before

    async def before(
        self, request: ModelRequest, place: str, key: str
    ) -> tuple[ModelRequest, Usage | None]:
        """Return what is sent, and what is reserved for it.

        Raises:
            TurnOver: a plugin ends the turn.
            ParkTurn: a plugin waits for a person.
        """
        reserve, asked = None, self._hooks.start("before_model", place)
        self._hooks.held.clear()
        while (said := await asked.next(request)) is not None:
            if isinstance(said, Stop):
                raise TurnOver(stopped(said, "limit", asked.plugin))
            if isinstance(said, Hold):
                self._answer(asked.plugin, said, place, key)
                asked.step_back()  # the plugin finds the answer
            else:
                request, reserve = _sent(said, request, reserve)
        return request, reserve

    async def before_direct(
        self, request: ModelRequest, place: str
    ) -> tuple[ModelRequest, Usage | None, Patches]:
        """Return what is sent for a tool or a plugin, what is reserved for it, and what hooks changed.

        Raises:
            ToolError: a plugin ends the turn: the caller has to stop, and the turn ends with its batch.
        """
        hooks, reserve = self._hooks, None
        plugins = hooks.plugins.having("before_model")
        covering = [one for one in plugins if getattr(one, "covers_direct_calls", False)]
        if not covering:
            return request, reserve, {}
        # Tools that run side by side may all ask.
        aside = hooks.place_aside()
        asked = hooks.start_with(covering, "before_model", place, aside)
        while (said := await asked.next(request)) is not None:
            if isinstance(said, Hold):
                # The body of a tool cannot be parked in its middle.
                said = Stop(f"{said.title} (a tool's own call cannot wait for the answer)", "limit")
            if isinstance(said, Stop):
                over = stopped(said, "limit", asked.plugin)
                self._turn.over = self._turn.over or over
                raise ToolError(over.detail)
            request, reserve = _sent(said, request, reserve)
        patches = aside.take()
        hooks.end_aside(aside)
        hooks.changed_aside(place, patches)
        return request, reserve, patches

    def _answer(self, plugin: str, hold: Hold, place: str, key: str) -> None:
        """Give a plugin what a person answered.

        Raises:
            ParkTurn: the question is still open.
            TurnOver: the person said no, or the plugin asks the same once more.
        """
        turn = self._turn
        answers = self._hooks.held.setdefault(plugin, {})
        if hold.key in answers:
            detail = f"The plugin {plugin} asked twice under {hold.key}."
            raise TurnOver(Stopped(reason="limit", detail=detail))
        view = turn.open_wait(
            "budget",
            about=f"{key}/{plugin}",
            digest=hold.key,
            title=hold.title,
            detail={"plugin": plugin, "key": hold.key, "about": hold.detail},
        )
        if view.state == "open":
            raise ParkTurn
        answer = turn.wait_over(view, f"{place}.{plugin}.{hold.key}")
        if answer.status != "answered":
            raise TurnOver(Stopped(reason="limit", detail=f"{hold.title}: {answer.status}"))
        answers[hold.key] = answer.value

    # ------------------------------------------------------------------ while it streams

    def begin_stream(self, effect_id: str) -> None:
        """Show plugins the pieces of another reply from here on."""
        self._streaming.about = effect_id
        self._hooks.place.round = self._streaming

    def streamed(self, chunk: Chunk) -> Chunk:
        """Return a piece of the reply as it is shown; a piece that a plugin fails on is not shown."""
        for turn, see in self._on_stream:
            try:
                chunk = _seen(turn.name, see, chunk)
            except PluginFault as fault:
                self._hooks.note(str(fault))
                return msgspec.structs.replace(chunk, text="")
            finally:
                turn.take_changes()  # previews are not recorded, and neither is what they change
        return chunk

    # ------------------------------------------------------------------ when it fails

    async def on_error(
        self,
        request: ModelRequest,
        failure: ModelFailure,
        error: ProviderError | None,
        attempt: int,
        place: str,
    ) -> Again | None:
        """Return how the call is made once more; None: it is not.

        Raises:
            TurnOver: a plugin ends the turn.
        """
        trouble = Trouble(
            kind="model",
            model=request.model,
            error=error,
            failure=None if error is not None else failure,
            attempt=attempt,
        )
        asked = self._hooks.start("on_error", f"{place}.{attempt}")
        asked.about = place
        said, plugin = await after_error(asked, trouble, self._hooks.note)
        if isinstance(said, Stop):
            raise TurnOver(stopped(said, "provider_error", plugin))
        if said is None:
            return None
        if said.model is not None and said.model != request.model:
            request = msgspec.structs.replace(request, model=said.model)
        if said.prompt:
            note = ModelMessage(role="user", parts=(Text(text=said.prompt),))
            request = msgspec.structs.replace(request, messages=(*request.messages, note))
        return Again(request, min(_MAX_WAIT_S, max(0.0, said.after_s)))

    # ------------------------------------------------------------------ after

    async def after(
        self, effect_id: int, raw: ModelReply, *, is_shown: bool
    ) -> tuple[ModelReply, bool]:
        """Return the reply that the turn continues with, and whether its text has been shown."""
        turn, hooks, place = self._turn, self._hooks, str(effect_id)
        asked = turn.keyed(ModelHooksCommand(reply=canonical.digest(raw)), place)
        if turn.journal is not None:
            known = turn.answer_to(asked, ReplyHooked)
            if known is not None:
                hooks.states.apply(known.patches)
                reply = known.reply or raw
                return reply, is_shown and reply.text == raw.text
            if not self._records_looks and turn.was_passed(effect_id):
                return raw, is_shown
            turn.go_live()
        try:
            reply = await self._looked_at(raw, place)
        except BaseException:
            # The turn ends here, or its drive does: what was shown of the reply is not kept.
            if is_shown:
                self._retract(place)
            raise
        patches = hooks.place.take()
        if reply is not raw or patches or self._records_looks:
            changed = None if reply is raw else reply
            turn.record(asked, ReplyHooked(reply=changed, patches=patches))
        if reply is raw:
            return reply, is_shown
        if reply.terminal == WITHHELD or (is_shown and reply.text != raw.text):
            self._retract(place)
            is_shown = False
        return reply, is_shown

    async def _looked_at(self, raw: ModelReply, place: str) -> ModelReply:
        """Return what plugins make of a reply. One that is withheld is shown to those behind, who may still end the turn.

        Raises:
            TurnOver: a plugin ends the turn.
            PluginFault: a plugin failed, or left nothing of a reply.
        """
        reply, looking, withheld = raw, self._hooks.start("after_model", place), ""
        while (said := await looking.next(reply)) is not None:
            plugin = looking.plugin
            if isinstance(said, Stop):
                raise TurnOver(stopped(said, "limit", plugin))
            if isinstance(said, Withhold):
                withheld = withheld or _why_withheld(said, plugin)
            elif not withheld:
                reply = KeyScreen(REGISTERED).reply(_as_asked(said, reply))
                if not _says_something(reply) and _says_something(raw):
                    raise unusable(plugin, "after_model", InvalidInput(_LEFT_NOTHING))
        if not withheld:
            return reply
        return msgspec.structs.replace(
            raw, text="", parts=(), terminal=WITHHELD, diagnostic=REGISTERED.clean(withheld)
        )

    def _retract(self, place: str) -> None:
        about = self._turn.ids.correlation(place)
        self._turn.tell(events.Retracted(correlation_ids=(about,)), place)


def _why_withheld(said: Withhold, plugin: str) -> str:
    why = f": {said.feedback}" if said.feedback else ". Answer in another way."
    return f"[note from the system]\nYour last reply was withheld by {plugin}{why}"


def _says_something(reply: ModelReply) -> bool:
    """Whether a reply holds words or calls, or ended otherwise than by itself."""
    if reply.terminal not in (STOP, "tool_use"):
        return True
    return any(type(part) is ToolCall for part in reply.parts) or not is_blank(
        Text(text=reply.text)
    )


def _as_asked(said: ModelReply, before: ModelReply) -> ModelReply:
    """Return a plugin's reply without the provider's text of arguments that the plugin replaced.

    That text would bring them back: in the history, in a summary, and as arguments where the plugin left none.
    """
    asked = {part.raw: part.args for part in before.parts if isinstance(part, ToolCall)}
    parts = tuple(
        msgspec.structs.replace(part, raw="")
        if isinstance(part, ToolCall) and asked.get(part.raw, part.args) != part.args
        else part
        for part in said.parts
    )
    return said if parts == said.parts else msgspec.structs.replace(said, text="", parts=parts)


def _seen(plugin: str, see: Call, chunk: Chunk) -> Chunk:
    try:
        said = see(chunk)
    except Exception as error:  # a preview does not make a turn fail
        raise PluginFault(plugin, "on_stream", error) from error
    try:
        return read_answer("on_stream", said) or chunk
    except CallerError as error:
        raise unusable(plugin, "on_stream", error) from error


def _sent(
    said: ModelRequest | Send | None, request: ModelRequest, reserve: Usage | None
) -> tuple[ModelRequest, Usage | None]:
    if isinstance(said, Send):
        return said.request or request, _both(reserve, said.reserve)
    return said or request, reserve


def _both(first: Usage | None, second: Usage | None) -> Usage | None:
    """Return the larger of two reservations: they are for the same call."""
    if first is None or second is None:
        return first or second
    return max(first, second, key=lambda usage: usage.prompt_tokens + usage.output_tokens)
