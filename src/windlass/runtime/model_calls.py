"""Model calls: answered from the journal, or bought, recorded raw, and never bought again."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from windlass.errors import ProviderError, Retry, Throttled, WindlassError
from windlass.journal import (
    DirectAnswered,
    DirectCallCommand,
    ModelAnswered,
    ModelCallCommand,
    RequestSpec,
    UsageLine,
)
from windlass.kernel import canonical, events
from windlass.kernel.effects import CallModel
from windlass.kernel.model_call import ModelFailure, ModelReply, ModelRequest
from windlass.kernel.responses import ModelReplied
from windlass.ports.model import AttemptFailed, Model, ModelEvent, ReasoningChunk, TextChunk
from windlass.runtime.turn_in_hand import ParkTurn, TurnInHand

T = TypeVar("T")
_FIRST_BACKOFF_MS = 1_000
_MAX_BACKOFF_MS = 300_000


class ModelCalls:
    """Performs the model calls of one turn."""

    def __init__(self, hand: TurnInHand) -> None:
        self._hand = hand
        self._model: Model | None = None
        self._direct: dict[str, int] = {}

    async def call(self, effect: CallModel) -> ModelReplied:
        """Answer the machine's call."""
        hand = self._hand
        envelope = hand.envelope(ModelCallCommand.of(effect.request), str(effect.id))
        known = hand.answer_to(envelope, ModelAnswered)
        hand.model_calls += 1
        if known is not None:
            return ModelReplied(
                id=effect.id, result=known.result, text_streamed=known.text_streamed
            )
        hand.go_live()
        await hand.lane.may_call_model()
        stream = _Stream(hand, str(effect.id))
        model = self._model_of(effect.request.model)
        try:
            result = await ask(model, effect.request, stream)
        except ProviderError as error:
            stream.retract()
            hand.model_calls -= 1
            result = self._wait_for_provider(error, envelope.key)
            hand.model_calls += 1
        except BaseException:
            stream.retract()  # cancelled: what was shown of it will not be stored
            raise
        answered = ModelAnswered(result=result, text_streamed=stream.has_text)
        hand.record(envelope, answered)
        return ModelReplied(id=effect.id, result=result, text_streamed=stream.has_text)

    async def direct(self, request: ModelRequest, place: str, source: str) -> ModelReply:
        """Answer a call by a tool: the n-th of this request at this place.

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
            await hand.lane.may_call_model()
            model = self._model_of(request.model)
            known = DirectAnswered(result=await ask(model, request, None))
            hand.record(envelope, known)
        if isinstance(known.result, ModelFailure):
            raise ProviderError(known.result.message)
        used = UsageLine(source=source, model=request.model, calls=1, usage=known.result.usage)
        hand.direct_usage[envelope.key] = used
        return known.result

    def _model_of(self, name: str) -> Model:
        program = self._hand.program
        if program.model.name == name:
            return program.model
        found = program.find_model(name)
        if found is not None:
            return found
        self._hand.open_wait(
            "mismatch",
            about=f"model/{name}",
            digest=str(self._hand.generation),
            title=f"The turn began with the model {name}, which is not here",
            detail={"model": name},
        )
        raise ParkTurn

    def _wait_for_provider(self, error: ProviderError, key: str) -> ModelFailure:
        """Park until the provider may be there again; once patience is over, return the failure.

        Raises:
            ParkTurn: the turn waits on a timer.
        """
        hand = self._hand
        before = [
            view.wait
            for view in hand.waits.values()
            if view.wait.kind == "provider" and view.wait.detail == {"key": key}
        ]
        now_ms = hand.world.clock.now_ms()
        since_ms = min((wait.created_ms for wait in before), default=now_ms)
        patience_ms = int(hand.limits.provider_patience * 1000)
        if error.retry is not Retry.LATER or now_ms - since_ms >= patience_ms:
            return ModelFailure(
                message=str(error), retryable=error.retry is Retry.LATER, code=error.code
            )
        backoff_ms = min(_MAX_BACKOFF_MS, _FIRST_BACKOFF_MS * 2 ** len(before))
        if isinstance(error, Throttled):
            backoff_ms = max(backoff_ms, _wish_ms(error.retry_after_s))
        hand.open_wait(
            "provider",
            about=key,
            digest=f"{error.code}.{len(before)}",
            title=f"The model {hand.started.model if hand.started else ''} does not answer",
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
        return ModelFailure(
            message=f"the model adapter raised {type(error).__name__}", code="adapter_error"
        )
    if type(reply) is not ModelReply:
        found = type(reply).__name__
        return ModelFailure(
            message=f"the model adapter returned {found}, wanted ModelReply", code="adapter_error"
        )
    return reply


def _wish_ms(seconds: float | None) -> int:
    """Return how long a provider wants us to wait, within reason."""
    if seconds is None or not seconds > 0:  # also what is no number
        return 0
    return int(min(_MAX_BACKOFF_MS, seconds * 1000))


def _ignore(_event: ModelEvent) -> None:
    """Nobody watches a call that a tool makes."""


class _Stream:
    """Shows a reply as it comes; takes back what came to nothing."""

    def __init__(self, hand: TurnInHand, effect_id: str) -> None:
        self._hand = hand
        self._effect_id = effect_id
        self._attempt = 1
        self._has_shown = False
        self.has_text = False

    def emit(self, event: ModelEvent) -> None:
        hand, about = self._hand, self._effect_id
        if isinstance(event, TextChunk):
            self.has_text = self._has_shown = True
            hand.tell(events.TextDelta(text=event.text), about)
        elif isinstance(event, ReasoningChunk):
            self._has_shown = True
            hand.tell(events.ReasoningDelta(text=event.text), about)
        elif isinstance(event, AttemptFailed):
            self.retract()
            self._attempt += 1
            hand.tell(
                events.Retrying(attempt=self._attempt, reason=event.reason, wait_ms=event.wait_ms),
                about,
            )

    def retract(self) -> None:
        """Take back what was shown of this call."""
        if self._has_shown:
            about = self._hand.ids.correlation(self._effect_id)
            self._hand.tell(events.Retracted(correlation_ids=(about,)), self._effect_id)
        self._has_shown = self.has_text = False
