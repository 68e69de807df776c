"""Model calls: answered from the journal, or bought, recorded raw, and never bought again."""

from __future__ import annotations

import asyncio
import logging
from traceback import format_tb
from typing import NamedTuple

from windlass.errors import (
    ConfigError,
    InvalidInput,
    ProviderError,
    Retry,
    Throttled,
    Unavailable,
    WindlassError,
)
from windlass.journal import (
    Claimed,
    DirectAnswered,
    DirectCallCommand,
    Envelope,
    ModelAnswered,
    ModelCallCommand,
    Released,
    RequestSpec,
)
from windlass.journal.moments import usage_of
from windlass.kernel import canonical, events
from windlass.kernel.effects import CallModel
from windlass.kernel.model_call import ModelFailure, ModelReply, ModelRequest, Usage
from windlass.kernel.responses import ModelReplied
from windlass.ports.model import (
    READ_BLOB,
    AttemptFailed,
    Model,
    ModelEvent,
    ReasoningChunk,
    TextChunk,
)
from windlass.runtime.around_model import ModelHooks
from windlass.runtime.turn import Turn
from windlass.runtime.turn_signals import ParkTurn, TurnOver

_log = logging.getLogger("windlass")
_FIRST_BACKOFF_MS = 1_000
_MAX_WHY = 300  # characters of what a provider said
_MAX_BACKOFF_MS = 300_000
# However often a plugin wants to try again: after that many attempts it is not going to help.
_MAX_ATTEMPTS = 100


class _Bought(NamedTuple):
    """What came back, of which request."""

    result: ModelReply | ModelFailure
    request: ModelRequest


class ModelCalls:
    """Performs the model calls of one turn."""

    def __init__(self, hand: Turn, hooks: ModelHooks) -> None:
        self._hand = hand
        self._hooks = hooks
        self._direct: dict[str, int] = {}

    async def call(self, effect: CallModel) -> ModelReplied:
        """Answer the machine's call."""
        hand = self._hand
        effect_id = str(effect.id)
        envelope = hand.envelope(ModelCallCommand.of(effect.request), effect_id)
        answered = hand.answer_to(envelope, ModelAnswered)
        if answered is None:
            hand.go_live()
            answered = await self._buy(effect.request, effect_id, envelope)
        else:
            self._hooks.take_up(answered)
        model = effect.request.model if answered.sent is None else answered.sent.model
        hand.spent.count_reply(model, usage_of(answered))
        result, is_shown = answered.result, answered.text_streamed
        if self._hooks.sees_replies and isinstance(result, ModelReply):
            result, is_shown = await self._hooks.after(effect.id, result, is_shown=is_shown)
        hand.last_reply = result if isinstance(result, ModelReply) else None
        return ModelReplied(id=effect.id, result=result, text_streamed=is_shown)

    async def _buy(self, asked: ModelRequest, effect_id: str, envelope: Envelope) -> ModelAnswered:
        hand, key = self._hand, envelope.key
        request, reserve = asked, None
        if self._hooks.sees_requests:
            request, reserve = await self._hooks.before(asked, effect_id, key)
        stream = _Stream(hand, self._hooks, effect_id)
        hand.spent.reserve(key, "turn", request.model, reserve)
        try:
            await hand.lane.may_call_model()
            if reserve is not None:
                await self._claim(envelope, request.model, reserve)
            bought = await self._attempts(request, stream, key)
        except (ParkTurn, TurnOver):
            self._release(key)
            hand.spent.settle(key)
            raise
        except BaseException:
            stream.retract()  # cancelled: what was shown of it will not be stored
            hand.spent.settle(key, is_lost=True)
            raise
        sent = None if bought.request is asked else RequestSpec.of(bought.request)
        answered = self._hooks.answered(bought.result, sent, is_shown=stream.has_text)
        hand.record(envelope, answered, claimed=hand.spent.settle(key))
        return answered

    async def _claim(self, envelope: Envelope, model: str, reserve: Usage) -> None:
        """Let what a call may cost be written down before it is made."""
        lane = self._hand.lane
        lane.add(Claimed.of(envelope, reserved=reserve, reserved_for=model))
        await lane.durable()

    def _release(self, key: str) -> None:
        """Write down that a call which was reserved for has bought nothing."""
        if key in self._hand.spent.reserved:
            self._hand.add(Released(key=key))

    async def _attempts(self, request: ModelRequest, stream: _Stream, key: str) -> _Bought:
        """Ask until there is a reply, or nobody wants to try again.

        Raises:
            ParkTurn: the provider is down, and the turn waits on a timer.
        """
        attempt, first = 1, request.model
        while True:
            error: ProviderError | None = None
            result: ModelReply | ModelFailure
            try:
                model = self._model_of(request.model, is_fallback=request.model != first)
                result = await self._ask(model, request, stream)
            except ProviderError as raised:
                error, result = raised, _failure(raised)
            if isinstance(result, ModelReply):
                return _Bought(result, request)
            stream.retract()
            again = await self._hooks.on_error(request, result, error, attempt, stream.effect_id)
            if again is None or stream.attempt >= _MAX_ATTEMPTS:
                if error is not None:
                    self._wait_for_provider(error, key)
                return _Bought(result, request)
            stream.try_again(result.message, again.wait_s)
            await self._hand.services.clock.sleep(again.wait_s)
            attempt = attempt + 1 if again.request.model == request.model else 1
            request = again.request

    async def direct(self, request: ModelRequest, place: str, source: str) -> ModelReply:
        """Answer a call by a tool or a plugin: the n-th of this request at this place.

        Raises:
            ProviderError: there is no reply.
        """
        hand = self._hand
        about = f"{place}.{canonical.digest(request)[:16]}"
        occurrence = self._direct[about] = self._direct.get(about, 0) + 1
        command = DirectCallCommand(request=RequestSpec.of(request), usage_source=source)
        envelope = hand.envelope(command, f"{about}.{occurrence}")
        known = hand.answer_to(envelope, DirectAnswered)
        if known is None:
            known = await self._buy_direct(request, envelope, about)
        hand.spent.count_direct(envelope.key, command, known)
        if isinstance(known.result, ModelFailure):
            raise ProviderError(known.result.message)
        return known.result

    async def _buy_direct(
        self, request: ModelRequest, envelope: Envelope, about: str
    ) -> DirectAnswered:
        hand, key = self._hand, envelope.key
        sent, reserve, patches = await self._hooks.before_direct(request, about)
        model = self._known(sent.model)
        if model is None:
            # Code of the user's asks: it is told, and the turn goes on. Nothing was bought.
            raise InvalidInput(
                f"model: nobody here is called {sent.model[:80]!r}; register one with Runtime(models=...)",
                field="model",
            )
        source = getattr(envelope.command, "usage_source", "")
        hand.spent.reserve(key, source, sent.model, reserve)
        try:
            await hand.lane.may_call_model()
            if reserve is not None:
                await self._claim(envelope, sent.model, reserve)
            result = await self._ask(model, sent, None)
        except ProviderError:
            self._release(key)
            hand.spent.settle(key)
            raise
        except BaseException:
            hand.spent.settle(key, is_lost=True)
            raise
        asked = None if sent is request else RequestSpec.of(sent)
        known = DirectAnswered(result=result, sent=asked, patches=dict(patches))
        hand.record(envelope, known, claimed=hand.spent.settle(key))
        return known

    async def _ask(
        self, model: Model, request: ModelRequest, stream: _Stream | None
    ) -> ModelReply | ModelFailure:
        """Ask with the session's store at hand, for the bytes of attachments."""
        reading = READ_BLOB.set(self._hand.services.store.get_blob)
        try:
            return await ask(model, request, stream)
        finally:
            READ_BLOB.reset(reading)

    def _known(self, name: str) -> Model | None:
        program = self._hand.program
        return program.model if program.model.name == name else program.find_model(name)

    def _model_of(self, name: str, *, is_fallback: bool) -> Model:
        """Return the model of a turn's own call.

        Raises:
            Unavailable: one to fall back on is not here; there may be another.
            ParkTurn: it is not here; a person decides.
        """
        why = ""
        try:
            found = self._known(name)
        except ConfigError as error:  # it has no key here, or no SDK
            found, why = None, str(error)
        if found is not None:
            return found
        if is_fallback:
            missing = f"the model {name}, to fall back on, is not here"
            self._hand.note_issue(f"{missing}: {why}" if why else missing, "model_missing")
            raise Unavailable(missing)
        self._hand.open_wait(
            "mismatch",
            about=f"model/{name}",
            digest=str(self._hand.generation),
            title=f"The turn asks for the model {name}, which is not here",
            detail={"model": name, "why": why} if why else {"model": name},
        )
        raise ParkTurn

    def _wait_for_provider(self, error: ProviderError, key: str) -> None:
        """Park until the provider may be there again; return once patience is over.

        Raises:
            ParkTurn: the turn waits on a timer.
        """
        hand = self._hand
        before = hand.provider_waits(key)
        now_ms = hand.services.clock.now_ms()
        since_ms = min((wait.created_ms for wait in before), default=now_ms)
        patience_ms = int(hand.limits.provider_patience * 1000)
        if error.retry is not Retry.LATER or now_ms - since_ms >= patience_ms:
            return
        backoff_ms = min(_MAX_BACKOFF_MS, _FIRST_BACKOFF_MS * 2 ** len(before))
        if isinstance(error, Throttled):
            backoff_ms = max(backoff_ms, _wish_ms(error.retry_after_s))
        name = hand.started.model if hand.started else ""
        hand.open_wait(
            "provider",
            about=key,
            digest=f"{error.code}.{len(before)}",
            title=f"The model {name} does not answer: {str(error)[:_MAX_WHY]}",
            detail={"key": key},
            expires_ms=min(now_ms + backoff_ms, since_ms + patience_ms),
        )
        raise ParkTurn


async def ask(
    model: Model, request: ModelRequest, stream: _Stream | None
) -> ModelReply | ModelFailure:
    """Ask a model; whatever it raises that is no ProviderError is a failure of the adapter.

    Raises:
        ProviderError: as the adapter says.
    """
    try:
        reply = await model.complete(request, _ignore if stream is None else stream.emit)
    except ProviderError:
        raise
    except WindlassError as error:
        return ModelFailure(message=str(error), code=error.code)
    except BaseException as error:
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            raise
        # A foreign adapter: whatever it raises is the turn's outcome, not the end of its worker.
        why = f"the model adapter raised {type(error).__name__}"
        # Where it was raised is for its author; what it says may hold anything.
        _log.error("%s:\n%s", why, "".join(format_tb(error.__traceback__)))
        return ModelFailure(message=why, code="adapter_error")
    if type(reply) is not ModelReply:
        found = type(reply).__name__
        return ModelFailure(
            message=f"the model adapter returned {found}, wanted ModelReply", code="adapter_error"
        )
    return reply


def _failure(error: ProviderError) -> ModelFailure:
    is_passing = error.retry is Retry.LATER
    return ModelFailure(message=str(error), retryable=is_passing, code=error.code)


def _wish_ms(seconds: float | None) -> int:
    """Return how long a provider wants us to wait, within reason."""
    if seconds is None or not seconds > 0:  # also what is no number
        return 0
    return int(min(_MAX_BACKOFF_MS, seconds * 1000))


def _ignore(_event: ModelEvent) -> None:
    """Nobody watches a call that a tool makes."""


class _Stream:
    """Shows a reply as it comes; takes back what came to nothing."""

    def __init__(self, hand: Turn, hooks: ModelHooks, effect_id: str) -> None:
        self._hand = hand
        self._hooks = hooks
        self.effect_id = effect_id
        self.attempt = 1
        self._has_shown = False
        self.has_text = False

    def emit(self, event: ModelEvent) -> None:
        if isinstance(event, AttemptFailed):
            self.retract()
            self.try_again(event.reason, event.wait_ms / 1000)
            return
        if isinstance(event, TextChunk):
            self.has_text = True
        if self._hooks.sees_streams:
            event = self._hooks.streamed(event)
            if not event.text:
                return
        self._has_shown = True
        if isinstance(event, TextChunk):
            self._hand.tell(events.TextDelta(text=event.text), self.effect_id)
        elif isinstance(event, ReasoningChunk):
            self._hand.tell(events.ReasoningDelta(text=event.text), self.effect_id)

    def try_again(self, reason: str, wait_s: float) -> None:
        """Say that the call is made once more."""
        self.attempt += 1
        event = events.Retrying(attempt=self.attempt, reason=reason, wait_ms=int(wait_s * 1000))
        self._hand.tell(event, self.effect_id)

    def retract(self) -> None:
        """Take back what was shown of this call."""
        if self._has_shown:
            about = self._hand.ids.correlation(self.effect_id)
            self._hand.tell(events.Retracted(correlation_ids=(about,)), self.effect_id)
        self._has_shown = self.has_text = False
