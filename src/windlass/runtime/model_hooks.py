"""The hooks around a model call: before it is sent, while it streams, when it fails, and once its reply is recorded."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from windlass.errors import ProviderError, ToolError
from windlass.journal import (
    ModelAnswered,
    ModelHooksCommand,
    ReplyHooked,
    RequestSpec,
)
from windlass.kernel import canonical, events
from windlass.kernel.messages import Text
from windlass.kernel.model_call import (
    ModelFailure,
    ModelMessage,
    ModelReply,
    ModelRequest,
    Usage,
)
from windlass.kernel.outcomes import Stopped
from windlass.ports.directives import Continue, Hold, Retry, Send, Stop
from windlass.ports.plugin import Chunk, Trouble
from windlass.runtime.hooks import Hooks
from windlass.runtime.hosted_turn import HostedTurn
from windlass.runtime.plugin_states import Changes, Patches
from windlass.runtime.turn import Keyed
from windlass.runtime.turn_signals import ParkTurn, PluginFault, TurnOver

_MAX_WAIT_S = 300.0


class Again(NamedTuple):
    """The call is to be made once more, like this."""

    request: ModelRequest
    wait_s: float


class ModelHooks:
    """Asks the plugins of one turn about its model calls."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._hand = hooks.hand
        self.sees_requests = bool(hooks.having("before_model"))
        self.sees_replies = bool(hooks.having("after_model"))
        self.sees_streams = bool(hooks.having("on_stream"))

    def take_up(self, answered: ModelAnswered) -> None:
        """Take in what the hooks of a recorded call changed."""
        if answered.patches or answered.issues:
            self._hooks.take_up(answered.patches, answered.issues)

    def answered(
        self, result: ModelReply | ModelFailure, sent: RequestSpec | None, *, is_shown: bool
    ) -> ModelAnswered:
        """Return what is recorded of a call: what came back, and what hooks left with it."""
        return ModelAnswered(
            result=result,
            text_streamed=is_shown,
            sent=sent,
            patches=self._hooks.take(),
            issues=self._hooks.take_issues(),
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
        hooks, reserve = self._hooks, None
        turns, at = hooks.having("before_model"), 0
        hooks.host.held.clear()
        while at < len(turns):
            at, said = await hooks.ask_from(turns, at, "before_model", place, request)
            if isinstance(said, Stop):
                raise TurnOver(hooks.stopped(said, "limit", turns[at]))
            if isinstance(said, Hold):
                self._answer(turns[at], said, place, key)
                continue  # it is asked once more, and finds the answer
            request, reserve = _sent(said, request, reserve)
            at += 1
        return request, reserve

    async def before_direct(
        self, request: ModelRequest, place: str
    ) -> tuple[ModelRequest, Usage | None, Patches]:
        """Return what is sent for a tool or a plugin, what is reserved for it, and what hooks changed.

        Raises:
            ToolError: a plugin ends the turn; whoever asked has to stop, and the turn ends with its batch.
        """
        patches: Changes = {}
        reserve: Usage | None = None
        for turn in self._hooks.having("before_model"):
            if not getattr(turn.plugin, "covers_direct_calls", False):
                continue
            # Tools that run side by side may all ask: each has a turn of its own.
            own = self._hooks.apart(turn, patches)
            said = await self._hooks.ask(own, "before_model", place, request)
            if isinstance(said, (Stop, Hold)):
                over = self._direct_end(said, turn)
                self._hand.over = self._hand.over or over
                raise ToolError(over.detail)
            request, reserve = _sent(said, request, reserve)
        self._hooks.changed_aside(place, patches)
        return request, reserve, patches

    def _direct_end(self, said: Stop | Hold, turn: HostedTurn) -> Stopped:
        if isinstance(said, Stop):
            return self._hooks.stopped(said, "limit", turn)
        # A body cannot be parked in its middle.
        detail = f"{said.title} (a tool's own call cannot wait for the answer)"
        return Stopped(reason="limit", detail=detail)

    def _answer(self, turn: HostedTurn, hold: Hold, place: str, key: str) -> None:
        """Let a plugin find what a person answered.

        Raises:
            ParkTurn: nobody has yet.
            TurnOver: they said no, or the plugin asks the same once more.
        """
        hand = self._hand
        answers = self._hooks.host.held.setdefault(turn.name, {})
        if hold.key in answers:
            detail = f"The plugin {turn.name} asked twice under {hold.key}."
            raise TurnOver(Stopped(reason="limit", detail=detail))
        view = hand.open_wait(
            "budget",
            about=f"{key}/{turn.name}",
            digest=hold.key,
            title=hold.title,
            detail={"plugin": turn.name, "key": hold.key, "about": hold.detail},
        )
        if view.state == "open":
            raise ParkTurn
        answer = hand.wait_over(view, f"{place}.{turn.name}.{hold.key}")
        if answer.status != "answered":
            raise TurnOver(Stopped(reason="limit", detail=f"{hold.title}: {answer.status}"))
        answers[hold.key] = answer.value

    # ------------------------------------------------------------------ while it streams

    def streamed(self, chunk: Chunk) -> Chunk:
        """Return a piece of the reply as it is shown; what a plugin fails on is not shown."""
        for turn in self._hooks.having("on_stream"):
            try:
                chunk = self._seen(turn, chunk)
            except PluginFault as fault:
                self._hooks.note(str(fault))
                return msgspec.structs.replace(chunk, text="")
        return chunk

    def _seen(self, turn: HostedTurn, chunk: Chunk) -> Chunk:
        try:
            said = turn.plugin.on_stream(turn, chunk)
        except Exception as error:  # a preview is no reason for a turn to fail
            raise PluginFault(turn.name, "on_stream", error) from error
        finally:
            turn.drop_changes()  # previews are not recorded, and neither is what they change
        return chunk if said is None else self._hooks.read(turn, "on_stream", said)

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
        retry: Retry | None = None
        for turn in self._hooks.having("on_error"):
            said = await self._error_word(turn, trouble, place)
            if isinstance(said, Stop):
                raise TurnOver(self._hooks.stopped(said, "provider_error", turn))
            if isinstance(said, Retry) and retry is None:
                retry = said
        if retry is None:
            return None
        if retry.model is not None and retry.model != request.model:
            request = msgspec.structs.replace(request, model=retry.model)
        if retry.prompt:
            note = ModelMessage(role="user", parts=(Text(text=retry.prompt),))
            request = msgspec.structs.replace(request, messages=(*request.messages, note))
        return Again(request, min(_MAX_WAIT_S, max(0.0, retry.after_s)))

    async def _error_word(self, turn: HostedTurn, trouble: Trouble, place: str) -> Any:  # noqa: ANN401 - a directive
        try:
            where = f"{place}.{trouble.attempt}"
            return await self._hooks.ask(turn, "on_error", where, trouble)
        except PluginFault as fault:
            self._hooks.note(str(fault))
            return Continue()

    # ------------------------------------------------------------------ after

    async def after(
        self, effect_id: int, raw: ModelReply, *, is_shown: bool
    ) -> tuple[ModelReply, bool]:
        """Return the reply that the turn goes on with, and whether its text has been shown."""
        hand = self._hand
        if hand.journal is not None:
            known = hand.answer_to(self._keyed(effect_id, raw), ReplyHooked)
            if known is not None:
                self._hooks.states.apply(known.patches)
                return known.reply, is_shown and known.reply.text == raw.text
            if hand.was_passed(effect_id):
                return raw, is_shown
            hand.go_live()
        reply = raw
        turns, at = self._hooks.having("after_model"), 0
        while at < len(turns):
            at, said = await self._hooks.ask_from(turns, at, "after_model", str(effect_id), reply)
            if isinstance(said, Stop):
                raise TurnOver(self._hooks.stopped(said, "limit", turns[at]))
            reply = reply if said is None else said
            at += 1
        patches = self._hooks.take()
        if reply is not raw or patches:
            hooked = ReplyHooked(reply=reply, patches=dict(patches))
            hand.record(self._keyed(effect_id, raw), hooked)
        if is_shown and reply.text != raw.text:
            about = hand.ids.correlation(str(effect_id))
            hand.tell(events.Retracted(correlation_ids=(about,)), str(effect_id))
            is_shown = False
        return reply, is_shown

    def _keyed(self, effect_id: int, raw: ModelReply) -> Keyed:
        return self._hand.keyed(ModelHooksCommand(reply=canonical.digest(raw)), str(effect_id))


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
