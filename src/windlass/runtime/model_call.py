"""Model calls: answered from the journal, or made once, recorded raw, and never made again.

Law 1. A reply is recorded before anything looks at it. What hooks make of it is recorded apart.
Law 2. What a call may cost is written down before it is made, if a plugin wants to reserve it; a call that left no
    outcome then counts as spent.
Law 3. What a model adapter raises is the turn's outcome, never the end of its worker. A provider that is down parks the
    turn on a timer, until its patience is over.

Length: a call, its attempts, its stream and its bytes; a tool's call shares all of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
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
from windlass.guards.secret import REGISTERED
from windlass.guards.text import LARGE, words_of
from windlass.journal import Attempt, DirectAnswered, ModelAnswered, Released
from windlass.journal.commands import DirectCallCommand, ModelCallCommand, RequestSpec
from windlass.journal.redaction import cleaned
from windlass.kernel import CallModel, Chain, ModelMessage, ModelReplied, canonical, events
from windlass.kernel.messages import COMMENTARY
from windlass.kernel.model_call import NO_USAGE, ModelFailure, ModelReply, ModelRequest
from windlass.ports import CallChunk, Model, ReasoningChunk, Store, TextChunk
from windlass.ports.key_screen import KeyScreen
from windlass.ports.model import READ_BLOB, AttemptFailed, ModelEvent
from windlass.runtime.around_model import ModelHooks
from windlass.runtime.hooked_turn import Patches
from windlass.runtime.large_values import let_others_run, off_loop
from windlass.runtime.reply_bounds import ReplyBounds, most_bytes
from windlass.runtime.turn import Keyed, Turn
from windlass.runtime.turn_signals import ParkTurn, TurnOver

_log = logging.getLogger("windlass")
_FIRST_BACKOFF_MS = 1_000
_MAX_WHY = 300  # characters of what a provider said
_MAX_BACKOFF_MS = 300_000
# However often a plugin wants to try again: after that many attempts it is not going to help.
_MAX_ATTEMPTS = 100


_NO_PATCHES: Patches = {}


class _Answer(NamedTuple):
    """What came back, and the request that brought it."""

    result: ModelReply | ModelFailure
    request: ModelRequest


class ModelCalls:
    """Performs the model calls of one turn."""

    def __init__(self, turn: Turn, hooks: ModelHooks | None) -> None:
        self._turn = turn
        self._hooks = hooks
        self._stream = _Stream(turn, hooks)
        self._bounds = ReplyBounds(turn, self._stream.emit)
        self._bodies = turn.program.once("request_bodies", _RequestBodies)
        self._model: Model | None = None
        self._direct: dict[str, int] = {}
        self.is_waiting = False

    async def call(self, effect: CallModel) -> ModelReplied:
        """Answer the machine's call."""
        turn, request, hooks = self._turn, effect.request, self._hooks
        effect_id = str(effect.id)
        asked = Keyed(turn.key("model_call", effect_id), self._bodies.of(request))
        answered = None
        if turn.recovery is not None:
            answered = turn.recovery.answer_to(asked, ModelAnswered)
        if answered is None:
            turn.go_live()
            self.is_waiting = True
            try:
                answered = await self._fetch(request, effect_id, asked)
            finally:
                self.is_waiting = False
        elif hooks is not None:
            hooks.take_up(answered)
        result, is_shown = answered.result, answered.text_streamed
        model = request.model if answered.sent is None else answered.sent.model
        if type(result) is not ModelReply:
            turn.spent.count_reply(model, NO_USAGE)  # none that we know of
            turn.last_reply = None
            return ModelReplied(id=effect.id, result=result, text_streamed=is_shown)
        turn.spent.count_reply(model, result.usage)
        if hooks is not None and hooks.sees_replies:
            result, is_shown = await hooks.after(effect.id, result, is_shown=is_shown)
        turn.last_reply = result
        return ModelReplied(id=effect.id, result=result, text_streamed=is_shown)

    async def _fetch(self, asked: ModelRequest, effect_id: str, keyed: Keyed) -> ModelAnswered:
        """Call the model and record what it answers."""
        turn, hooks, stream = self._turn, self._hooks, self._stream
        request, reserve, key = asked, None, keyed.key
        if hooks is not None and hooks.sees_requests:
            request, reserve = await hooks.before(asked, effect_id, key)
        stream.begin(effect_id, request.model)
        if reserve is not None:
            turn.spent.reserve(key, "turn", request.model, reserve)
        now_ms = turn.services.clock.now_ms
        try:
            if turn.lane.owes_reply:
                await turn.lane.may_call_model()
            if reserve is not None:
                turn.claim(keyed, reserved=reserve, reserved_for=request.model)
                await turn.lane.durable()
            began_ms = stream.began_ms = now_ms()
            answer = await self._attempts(request, key)
        except (ParkTurn, TurnOver):
            if turn.spent.settle(key):
                turn.lane.add(Released(key=key))
            raise
        except BaseException:
            stream.retract()  # cancelled: what was shown of it will not be stored
            turn.spent.settle(key, is_lost=True)
            raise
        sent = None if answer.request is asked else RequestSpec.of(answer.request)
        if hooks is None:
            answered = ModelAnswered(result=answer.result, text_streamed=stream.has_text, sent=sent)
        else:
            answered = hooks.answered(answer.result, sent, is_shown=stream.has_text)
        turn.record(
            keyed,
            answered,
            claimed=reserve is not None and turn.spent.settle(key),
            began_ms=began_ms,
            took_ms=max(0, now_ms() - began_ms),
            first_ms=stream.first_ms,
            attempts=tuple(stream.failed),
        )
        if self._bounds.is_large:
            # Written alone, so that it is not encoded in one go with all that follows from it.
            self._bounds.is_large = False
            turn.is_large = True
            await turn.lane.durable()
            await let_others_run()
        return answered

    async def _attempts(self, request: ModelRequest, key: str) -> _Answer:
        """Call until there is a reply, or nothing says that it should be tried again.

        Raises:
            ParkTurn: the provider is down, and the turn waits on a timer.
        """
        turn, stream, attempt, first = self._turn, self._stream, 1, request.model
        while True:
            error: ProviderError | None = None
            result: ModelReply | ModelFailure
            try:
                model = self._model
                if model is None or model.name != request.model:
                    model = self._model_of(request.model, is_fallback=request.model != first)
                result = await ask(model, request, self._bounds, turn.services.store)
            except ProviderError as raised:
                error, result = raised, _failure(raised)
            if not isinstance(result, ModelFailure):
                if stream.has_text:
                    stream.keep_only(result.text)
                return _Answer(result, request)
            stream.retract()
            self._bounds = ReplyBounds(turn, stream.emit)
            again = None
            if self._hooks is not None and result.code != "max_seconds":
                again = await self._hooks.on_error(
                    request, result, error, attempt, stream.effect_id
                )
            if again is None or stream.attempt >= _MAX_ATTEMPTS:
                if error is not None:
                    self._wait_for_provider(error, key)
                return _Answer(result, request)
            stream.try_again(result, again.wait_s)
            await turn.services.clock.sleep(again.wait_s)
            attempt = attempt + 1 if again.request.model == request.model else 1
            request = again.request
            stream.model = request.model

    # ------------------------------------------------------------------ calls by tools and plugins

    async def direct(self, request: ModelRequest, place: str, source: str) -> ModelReply:
        """Answer a call by a tool or a plugin: the n-th of this request at this place.

        Raises:
            ProviderError: there is no reply.
        """
        turn = self._turn
        about = f"{place}.{canonical.digest(request)[:16]}"
        occurrence = self._direct[about] = self._direct.get(about, 0) + 1
        command = DirectCallCommand(request=RequestSpec.of(request), usage_source=source)
        asked = turn.keyed(command, f"{about}.{occurrence}")
        known = turn.answer_to(asked, DirectAnswered)
        if known is None:
            known = await self._fetch_direct(request, asked, about, source)
        turn.spent.count_direct(asked.key, command, known)
        if isinstance(known.result, ModelFailure):
            raise ProviderError(known.result.message)
        return known.result

    async def _fetch_direct(
        self, request: ModelRequest, asked: Keyed, about: str, source: str
    ) -> DirectAnswered:
        turn, key = self._turn, asked.key
        sent, reserve, patches = request, None, _NO_PATCHES
        if self._hooks is not None:
            sent, reserve, patches = await self._hooks.before_direct(request, about)
        model = self._known(sent.model)
        if model is None:
            # The user's own code asks: it is told, and the turn continues. Nothing was spent.
            raise InvalidInput(
                f"model: no model is called {sent.model[:80]!r} here; register one with Runtime(models=...)",
                field="model",
            )
        turn.spent.reserve(key, source, sent.model, reserve)
        now_ms = turn.services.clock.now_ms
        try:
            await turn.lane.keep_replies()
            if reserve is not None:
                turn.claim(asked, reserved=reserve, reserved_for=sent.model)
                await turn.lane.durable()
            began_ms = now_ms()
            result = await ask(model, sent, ReplyBounds(turn, _ignore), turn.services.store)
        except ProviderError:
            if turn.spent.settle(key):
                turn.lane.add(Released(key=key))
            raise
        except BaseException:
            turn.spent.settle(key, is_lost=True)
            raise
        spec = None if sent is request else RequestSpec.of(sent)
        known = DirectAnswered(result=result, sent=spec, patches=dict(patches))
        turn.record(
            asked,
            known,
            claimed=turn.spent.settle(key),
            began_ms=began_ms,
            took_ms=max(0, now_ms() - began_ms),
        )
        # Calls side by side all end before the next one begins: each waits for the replies before its own.
        if turn.lane.owes_reply:
            await turn.lane.may_call_model()
        return known

    # ------------------------------------------------------------------ models and providers

    def _known(self, name: str) -> Model | None:
        program = self._turn.program
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
            self._model = found
            return found
        if is_fallback:
            missing = f"the model {name}, to fall back on, is not here"
            said = f"{missing}: {why}" if why else missing
            self._turn.note_issue(said, "model_missing", self._stream.effect_id)
            raise Unavailable(missing)
        self._turn.open_wait(
            "mismatch",
            about=f"model/{name}",
            digest=str(self._turn.generation),
            title=f"The turn asks for the model {name}, which this worker does not have",
            detail={"model": name, "why": why} if why else {"model": name},
        )
        raise ParkTurn

    def _wait_for_provider(self, error: ProviderError, key: str) -> None:
        """Park until the provider may be there again; return once patience is over.

        Raises:
            ParkTurn: the turn waits on a timer.
        """
        turn = self._turn
        waits = (view.wait for view in turn.waits.values() if view.wait.kind == "provider")
        before = [wait for wait in waits if wait.detail == {"key": key}]
        now_ms = turn.services.clock.now_ms()
        since_ms = min((wait.created_ms for wait in before), default=now_ms)
        patience_ms = int(turn.limits.provider_patience * 1000)
        if error.retry is not Retry.LATER or now_ms - since_ms >= patience_ms:
            return
        backoff_ms = min(_MAX_BACKOFF_MS, _FIRST_BACKOFF_MS * 2 ** len(before))
        if isinstance(error, Throttled):
            backoff_ms = max(backoff_ms, _wish_ms(error.retry_after_s))
        name = turn.started.model if turn.started else ""
        turn.open_wait(
            "provider",
            about=key,
            digest=f"{error.code}.{len(before)}",
            title=f"The model {name} does not answer: {words_of(error)[:_MAX_WHY]}",
            detail={"key": key},
            expires_ms=min(now_ms + backoff_ms, since_ms + patience_ms),
        )
        raise ParkTurn


async def ask(
    model: Model, request: ModelRequest, bounds: ReplyBounds, store: Store
) -> ModelReply | ModelFailure:
    """Ask a model; whatever it raises besides a ProviderError is a failure of the adapter.

    It reads the bytes of attachments from the store. No registered secret is in what it shows or answers, and it is
    within its bounds.

    Raises:
        ProviderError: as the adapter says.
    """
    screen = KeyScreen(REGISTERED, bounds.emit) if REGISTERED.secrets else None
    reading = READ_BLOB.set(store.get_blob)
    bounds.n_bytes = 0
    try:
        call = model.complete(request, bounds.emit if screen is None else screen.emit)
        if not hasattr(call, "send"):
            call = _awaited(call)
        try:
            waits_for = call.send(None)
        except StopIteration as done:
            reply = done.value
        else:
            reply = await bounds.in_time(call, waits_for)
    except BaseException as error:
        failure = _failure_of(error, bounds)
        if failure is None:
            raise
        return failure
    finally:
        READ_BLOB.reset(reading)
    if type(reply) is not ModelReply:
        found = type(reply).__name__
        return bounds.failure or ModelFailure(
            message=f"the model adapter returned {found}, wanted ModelReply", code="adapter_error"
        )
    # An adapter may not have let itself be interrupted.
    n_bytes = most_bytes(reply)
    if bounds.failure is not None or n_bytes * 4 > bounds.max_bytes:
        failure = bounds.failure_of(reply)
        if failure is not None:
            return failure
    if screen is None:
        return reply
    screen.flush()
    return screen.cleaned(reply) if n_bytes <= LARGE else await off_loop(screen.cleaned, reply)


def _failure_of(error: BaseException, bounds: ReplyBounds) -> ModelFailure | None:
    """Return the failure that an adapter's error is; None: its caller has to know the error itself."""
    task = asyncio.current_task()
    if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
        return None
    if bounds.failure is not None:
        return bounds.failure
    if isinstance(error, ProviderError):
        return None
    if isinstance(error, WindlassError):
        return cleaned(ModelFailure(message=words_of(error), code=error.code))
    # A foreign adapter: whatever it raises is the turn's outcome, not the end of its worker.
    why = f"the model adapter raised {type(error).__name__}"
    # Where it was raised is for its author; what it says may hold anything.
    _log.error("%s:\n%s", why, "".join(format_tb(error.__traceback__)))
    return ModelFailure(message=why, code="adapter_error")


async def _awaited(call: Awaitable[ModelReply]) -> ModelReply:
    """Await what an adapter returned that is not a coroutine."""
    return await call


def _failure(error: ProviderError) -> ModelFailure:
    is_passing = error.retry is Retry.LATER
    return cleaned(ModelFailure(message=words_of(error), retryable=is_passing, code=error.code))


def _wish_ms(seconds: float | None) -> int:
    """Return how long a provider wants us to wait, within reason."""
    if seconds is None or not seconds > 0:  # also NaN
        return 0
    return int(min(_MAX_BACKOFF_MS, seconds * 1000))


def _ignore(_event: ModelEvent) -> None:
    """Show nothing: a call that a tool makes is not watched."""


class _RequestBodies:
    """The bytes of the commands that call an agent's model.

    Of two requests mostly the messages and the session differ. Messages stand in a command by digest and count; the
    bytes around them and the session are made once.
    """

    __slots__ = ("_after", "_before", "_between", "_settings")

    def __init__(self) -> None:
        self._settings: tuple[object, ...] = ()
        self._before = self._between = self._after = b""

    def of(self, request: ModelRequest) -> bytes:
        """Return the canonical bytes of the command that sends this request."""
        chain: Chain[ModelMessage] = request.messages  # type: ignore[assignment]  # it is kept as one
        messages = b'"message_count":%d,"messages":"%b"' % (
            chain.length,
            chain.chain_digest().encode(),
        )
        # An id holds nothing that JSON would escape.
        session = (
            b""
            if request.session_id is None
            else b'"session_id":"%b"' % request.session_id.encode()
        )
        settings = (
            request.tools, request.model, request.generation, not session,
            request.tool_choice, request.variant, request.output,
        )  # fmt: skip
        if settings != self._settings:
            # The two fields stand side by side, and no other text of a request can hold this digest. The session
            # stands behind the schema of an output, which might have a field of that name.
            whole = canonical.encode(ModelCallCommand.of(request))
            self._before, _, rest = whole.partition(messages)
            self._between, _, self._after = (
                rest.rpartition(session) if session else (rest, b"", b"")
            )
            self._settings = settings
        return b"%b%b%b%b%b" % (self._before, messages, self._between, session, self._after)


class _Stream:
    """Shows a reply as it comes; takes back what came to nothing. One for all calls of a turn."""

    def __init__(self, turn: Turn, hooks: ModelHooks | None) -> None:
        self._turn = turn
        self._hooks = hooks if hooks is not None and hooks.sees_streams else None
        self.begin("", "")

    def begin(self, effect_id: str, model: str) -> None:
        """Show another call from here on."""
        self.effect_id, self.model = effect_id, model
        self.attempt = 1
        self.began_ms = 0
        self.first_ms: int | None = None
        self.failed: list[Attempt] = []
        # The words of the reply as they came, before plugins changed what is shown of them.
        self._words: list[str] = []
        self._has_shown = self.has_text = False
        if self._hooks is not None:
            self._hooks.begin_stream(effect_id)

    def emit(self, event: ModelEvent) -> None:
        """Show a piece of the reply."""
        if isinstance(event, AttemptFailed):
            self.retract()
            self._note_failure("adapter_retry", event.reason, event.wait_ms / 1000)
            return
        if self.first_ms is None:
            self.first_ms = max(0, self._turn.services.clock.now_ms() - self.began_ms)
        if isinstance(event, TextChunk):
            self.has_text = True
            if event.phase != COMMENTARY:
                self._words.append(event.text)
        if self._hooks is not None:
            event = self._hooks.streamed(event)
            if not event.text:
                return
        self._has_shown = True
        if isinstance(event, TextChunk):
            delta = events.TextDelta(text=event.text, phase=event.phase)
            self._turn.tell(delta, self.effect_id)
        elif isinstance(event, ReasoningChunk):
            self._turn.tell(events.ReasoningDelta(text=event.text), self.effect_id)
        elif isinstance(event, CallChunk):
            about = events.ToolInputDelta(call_id=event.call_id, name=event.name, text=event.text)
            self._turn.tell(about, self.effect_id)

    def try_again(self, failure: ModelFailure, wait_s: float) -> None:
        """Note an attempt that failed, and say that the call is made once more."""
        self._note_failure(failure.code or "", failure.message, wait_s)

    def _note_failure(self, code: str, reason: str, wait_s: float) -> None:
        began_ms, now_ms = self.began_ms, self._turn.services.clock.now_ms()
        took_ms = max(0, now_ms - began_ms)
        self.failed.append(Attempt(began_ms=began_ms, took_ms=took_ms, code=code, model=self.model))
        self.began_ms, self.first_ms = now_ms + int(wait_s * 1000), None
        self.attempt += 1
        event = events.Retrying(attempt=self.attempt, reason=reason, wait_ms=int(wait_s * 1000))
        self._turn.tell(event, self.effect_id)

    def retract(self) -> None:
        """Take back what was shown of this call."""
        if self._has_shown:
            about = self._turn.ids.correlation(self.effect_id)
            self._turn.tell(events.Retracted(correlation_ids=(about,)), self.effect_id)
        self._has_shown = self.has_text = False
        self._words.clear()

    def keep_only(self, text: str) -> None:
        """Take back what was shown, if the reply that came of it does not say it."""
        words = "".join(self._words)
        # White space around it is no reason to take words back and show them again.
        if words != text and words.strip() not in text:
            self.retract()
