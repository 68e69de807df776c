"""Running a tool's body: whatever it does, something is known about it afterwards.

Law 1. A body runs in the task of its call, one step at a time, in a context of its own: variables that it sets are
    not seen outside. A tool with a timeout has a task of its own.
Law 2. A body that cancels the task it is in ends itself, not the turn.
Law 3. A body that will not be cancelled holds up nothing: when its turn ends, it gets a moment, and is then left to a
    task of its own. What it does later is in no commit.

Length: what a body does and what it may ask for meet in one object, the call.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Coroutine, Generator, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar, copy_context
from typing import Any, Protocol, TypeGuard, get_args

import msgspec

from windlass.errors import (
    CallerError,
    IdempotencyConflict,
    InvalidInput,
    ToolDenied,
    ToolError,
    ToolUncertain,
    WindlassError,
)
from windlass.guards.limits import check_seconds
from windlass.guards.media import check_file_name, check_media_type
from windlass.guards.secret import REGISTERED
from windlass.guards.text import LARGE, words_of
from windlass.journal import derived_session_id, idempotency_key
from windlass.kernel import Json, ModelReply, ModelRequest, ToolOutcome, events
from windlass.kernel.messages import Attachment, Message, ResultPart, Text, ToolStatus
from windlass.kernel.value import check_instance
from windlass.ports.process import (
    FIRST_TURN,
    AnyProcess,
    ProcessRef,
    beginning,
    process_ref,
)
from windlass.ports.tool import Again, Pending, Tool, ToolContext
from windlass.ports.trigger import EventSource
from windlass.ports.waits import WaitKind
from windlass.runtime.child_host import ChildHost
from windlass.runtime.emitting import Emitter
from windlass.runtime.large_values import is_large, off_loop
from windlass.runtime.questions import check_question, checked_schema
from windlass.runtime.turn import Turn
from windlass.runtime.turn_record import attached_to
from windlass.tools import clipped

_MAX_ERROR_CHARS = 4_000
_GRACE_S = 1.0  # how long a body that was cancelled has until it is left alone
_STATUSES = get_args(ToolStatus)

RUNS_IN: ContextVar[str | None] = ContextVar("windlass_session", default=None)
"""The session in which the code that asks is a tool's body: a turn there would wait for itself."""


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How one attempt of a body ended; `is_uncertain`: it may have acted all the same. `reason` is clean text."""

    value: object = None
    status: ToolStatus = "ok"
    reason: str = ""
    is_uncertain: bool = False
    not_started: bool = False

    @property
    def is_failure(self) -> bool:
        """Whether it might go better another time."""
        return self.status in ("error", "timeout", "unknown")


_CANCELLED_ITSELF = Ended(status="unknown", reason="it cancelled itself", is_uncertain=True)


# ---------------------------------------------------------------------- running


async def run_body(tool: Tool, ctx: ToolContext[Any], args: Mapping[str, Any], turn: Turn) -> Ended:
    """Run the body once, with checked arguments."""
    seconds = tool.timeout if tool.timeout is not None else turn.limits.tool_timeout
    if seconds is not None:
        return await _timed(tool, ctx, args, seconds)
    steps = _Steps(tool.run(ctx, args), turn)
    try:
        value = await steps
    except asyncio.CancelledError:
        if steps.cancelled_itself:
            return _CANCELLED_ITSELF
        raise
    except BaseException as error:
        if steps.cancelled_itself:
            return _CANCELLED_ITSELF
        if not isinstance(error, Exception):
            raise
        return _failed(error)
    return _CANCELLED_ITSELF if steps.cancelled_itself else Ended(value=value)


class _Steps:
    """Awaits a coroutine step by step in the current task, in a context of its own."""

    __slots__ = ("_body", "_context", "_turn", "cancelled_itself")

    def __init__(self, body: Coroutine[Any, Any, object], turn: Turn) -> None:
        self._body = body
        self._turn = turn
        self._context = copy_context()
        self._context.run(RUNS_IN.set, turn.session_id)
        self.cancelled_itself = False

    def __await__(self) -> Generator[Any, Any, object]:  # noqa: C901 - a task's step, and its cancels
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - it is awaited in one
        cancels = task.cancelling()
        step, given = self._body.send, None
        try:
            while True:
                before = task.cancelling()
                try:
                    waits_for = self._context.run(step, given)
                finally:
                    # Nothing else runs during a step: it is the body that cancelled the task.
                    if task.cancelling() > before:
                        self.cancelled_itself = True
                if step is not self._body.send and self._is_ending(task, cancels):
                    yield from self._let_go(waits_for)
                try:
                    given, step = (yield waits_for), self._body.send
                except GeneratorExit:
                    self._body.close()
                    raise
                except BaseException as error:  # noqa: BLE001 - it is the body's to handle
                    given, step = error, self._body.throw
        except StopIteration as done:
            if task.cancelling() > cancels:
                if self._is_ending(task, cancels):
                    raise asyncio.CancelledError from None
                if self.cancelled_itself:
                    # It asked for the cancel just before it ended: that must not reach the turn.
                    with suppress(asyncio.CancelledError):
                        yield
            return done.value
        finally:
            while task.cancelling() > cancels and not self._is_ending(task, cancels):
                task.uncancel()

    def _is_ending(self, task: asyncio.Task[Any], cancels: int) -> bool:
        """Whether the turn is being ended from outside, and not just the body."""
        turn = self._turn
        return (
            turn.is_cancelled or turn.is_stopping or turn.lane.refusal is not None
        ) and task.cancelling() > cancels + self.cancelled_itself

    def _let_go(self, waits_for: object) -> Generator[Any, Any, None]:
        """Leave a body that did not end when its turn did to a task of its own, after a moment."""
        loop = asyncio.get_running_loop()
        rest = loop.create_task(go_on(self._body, waits_for), context=self._context)
        yield from asyncio.wait((rest,), timeout=_GRACE_S).__await__()
        rest.add_done_callback(_retrieve_error)
        raise asyncio.CancelledError


@types.coroutine
def go_on(body: Coroutine[Any, Any, Any], waits_for: object) -> Generator[Any, Any, Any]:
    """Go on with a coroutine that has been started, from what it waits for."""
    try:
        while True:
            try:
                given = yield waits_for
            except BaseException as error:  # noqa: BLE001 - it is the body's to handle
                waits_for = body.throw(error)
            else:
                waits_for = body.send(given)
    except StopIteration as done:
        return done.value


async def _timed(
    tool: Tool, ctx: ToolContext[Any], args: Mapping[str, Any], seconds: float
) -> Ended:
    """Run the body in a task of its own, for so long and no longer."""
    loop = asyncio.get_running_loop()
    # The task is not itself what is waited for: a body that will not be cancelled holds up nothing.
    news: asyncio.Future[None] = loop.create_future()
    body = loop.create_task(_run_apart(tool, ctx, args, news))
    timer = loop.call_later(seconds, _tell, news)
    try:
        await news
    except asyncio.CancelledError:
        await _cancel(body)
        raise
    finally:
        timer.cancel()
    if not body.done():
        await _cancel(body)
        reason = f"it did not return in {seconds:g} s"
        return Ended(status="timeout", reason=reason, is_uncertain=True)
    if body.cancelled():
        return _CANCELLED_ITSELF
    error = body.exception()
    return Ended(value=body.result()) if error is None else _failed(error)


async def _run_apart(
    tool: Tool, ctx: ToolContext[Any], args: Mapping[str, Any], news: asyncio.Future[None]
) -> object:
    RUNS_IN.set(ctx.session_id)
    try:
        return await tool.run(ctx, args)
    finally:
        # As its last act, which spares the loop a pass.
        _tell(news)


def _tell(news: asyncio.Future[None]) -> None:
    if not news.done():
        news.set_result(None)


async def _cancel(body: asyncio.Task[object]) -> None:
    """Cancel a body and give it a moment; what it does later is in no commit."""
    body.cancel()
    await asyncio.wait((body,), timeout=_GRACE_S)
    body.add_done_callback(_retrieve_error)


def _retrieve_error(body: asyncio.Task[Any]) -> None:
    # Without this the loop would report an error that was never retrieved.
    if not body.cancelled():
        body.exception()


def _failed(error: BaseException) -> Ended:
    """Return how a body ended that raised; whatever its error says can be kept and shown."""
    if isinstance(error, Again):
        return Ended(value=error)
    words, name = REGISTERED.clean(words_of(error))[:_MAX_ERROR_CHARS], type(error).__name__
    if isinstance(error, ToolUncertain):
        return Ended(status="unknown", reason=words or name, is_uncertain=True)
    if isinstance(error, ToolDenied):
        return Ended(status="denied", reason=words)
    if isinstance(error, ToolError):
        return Ended(status="error", reason=words, not_started=error.not_started)
    if isinstance(error, WindlassError):
        return Ended(status="error", reason=f"{error.code}: {words}")
    return Ended(status="error", reason=f"{name}: {words}" if words else name)


# ---------------------------------------------------------------------- what it returned


async def value_outcome(ended: Ended, tool: Tool, turn: Turn) -> ToolOutcome:
    """Return what the model and the history get of it; a text that is too long is kept whole as a file."""
    if ended.status != "ok":
        return ToolOutcome(status=ended.status, value=ended.reason or "It failed without a word.")
    value, keep = ended.value, turn.limits.max_result_bytes
    if (type(value) is str and len(value) <= LARGE) or not is_large(value):
        outcome, full = clipped(value, limit=tool.output_limit, keep=keep)
    else:
        outcome, full = await off_loop(clipped, value, limit=tool.output_limit, keep=keep)
    if full is not None:
        outcome = with_part(outcome, await _kept_whole(full, turn))
    if outcome.status == "ok" and not outcome.content and not outcome.shown:
        return outcome
    return await _checked(outcome, turn)


async def _kept_whole(full: bytes, turn: Turn) -> ResultPart:
    """Keep the whole of a text that was cut; what the store does not take is said to be missing."""
    try:
        return await turn.keep_bytes(full, "text/plain", "full-output")
    except CallerError as error:
        # The tool has succeeded all the same.
        return Text(text=f"(The whole text is not kept: {error.code}.)")


async def _checked(outcome: ToolOutcome, turn: Turn) -> ToolOutcome:
    """Return an outcome that can be kept: of a known status, and referring to bytes that are there."""
    if outcome.status not in _STATUSES:
        text = f"It succeeded, with a status that does not exist ({type(outcome.status).__name__})."
        return ToolOutcome(value=text)
    missing = {ref for ref in turn.take_blobs(outcome) if not await is_kept(ref, turn)}
    missing |= {part.ref for part in (*outcome.content, *(outcome.shown or ())) if _is_unfit(part)}
    if not missing:
        return outcome
    note = Text(
        text=f"(It succeeded; {len(missing)} of its attachments are left out: not kept anywhere, or "
        "of a media type or name that is none.)"
    )
    parts = tuple(part for part in outcome.content if getattr(part, "ref", None) not in missing)
    shown = outcome.shown and tuple(
        part for part in outcome.shown if getattr(part, "ref", None) not in missing
    )
    return with_part(msgspec.structs.replace(outcome, content=parts, shown=shown), note)


def _is_unfit(part: ResultPart) -> TypeGuard[Attachment]:
    """Whether an attachment that a tool made itself has a media type or name that no header can carry."""
    if not isinstance(part, Attachment):
        return False
    try:
        check_media_type(part.media_type, field="media_type")
        check_file_name(part.name, field="name")
    except CallerError:
        return True
    return False


async def is_kept(ref: str, turn: Turn) -> bool:
    """Whether the store has the bytes."""
    if ref in turn.blobs:
        return True
    try:
        await turn.services.store.get_blob(ref)
    except CallerError:
        return False
    return True


def with_part(outcome: ToolOutcome, part: ResultPart) -> ToolOutcome:
    """Return an outcome that says one thing more to the model."""
    shown = None if outcome.shown is None else (*outcome.shown, part)
    return msgspec.structs.replace(outcome, content=(*outcome.content, part), shown=shown)


# ---------------------------------------------------------------------- what it may ask for


class Asks(Protocol):
    """What makes model calls for a body."""

    async def direct(self, request: ModelRequest, place: str, source: str) -> ModelReply: ...


class CallHost(ChildHost):
    """What stands behind a tool's context: the call that it runs in."""

    models: Asks
    # The key of the wait that the body opened, if it did.
    deferred_key: str | None = None
    # What that wait is about.
    _waits_about: tuple[WaitKind, str, Json] | None = None

    @property
    def is_cancelled(self) -> bool:
        """Whether the turn was cancelled."""
        return self.turn.is_cancelled

    @property
    def idempotency_key(self) -> str:
        """What the tool hands to the world, so that the world can tell a repeat from a new call."""
        turn = self.turn
        return idempotency_key(
            turn.services.store.store_id,
            turn.session_id,
            turn.turn_id,
            self.effect_id,
            self.ordinal,
        )

    @property
    def messages(self) -> Sequence[Message]:
        """The frame's history."""
        return self.turn.history_now()

    def progress(self, data: Json) -> None:
        """Show how far it is, from any thread."""
        # A preview that cannot be shown is no reason for a call to fail.
        with suppress(CallerError):
            call = self.call
            event = events.ToolProgress(call_id=call.call_id, name=call.name, data=data)
            self.turn.tell_from_thread(event, self.place)

    async def attach(self, data: bytes, media_type: str, name: str | None) -> Attachment:
        """Keep bytes."""
        check_instance(data, bytes, field="attach")
        return await self.turn.attach(data, media_type, name)

    async def defer(self, deadline_s: float | None) -> Pending:
        """Open the call's wait; the same one when the body runs again."""
        title = f"{self.call.name} waits for its result"
        return await self._open_wait("deferred", title, {"tool": self.call.name}, deadline_s)

    async def ask(
        self, question: str, schema: Mapping[str, Any] | None, deadline_s: float | None
    ) -> Pending:
        """Open the wait for a person's answer; the same one when the body runs again."""
        check_question(question)
        detail: dict[str, Json] = {"tool": self.call.name}
        if schema is not None:
            detail["schema"] = checked_schema(schema)
        return await self._open_wait("question", question, detail, deadline_s)

    async def _open_wait(
        self, kind: WaitKind, title: str, detail: Json, deadline_s: float | None
    ) -> Pending:
        check_seconds(deadline_s, field="deadline")
        self._check_one_wait((kind, title, detail))
        turn, call = self.turn, self.call
        now_ms = turn.services.clock.now_ms()
        view = turn.open_wait(
            kind,
            about=f"{turn.session_id}/{turn.turn_id}/{self.place}",
            digest=kind,
            title=title,
            detail=detail,
            call_id=call.call_id,
            expires_ms=None if deadline_s is None else now_ms + int(deadline_s * 1000),
        )
        await turn.lane.durable()
        self.deferred_key = view.wait.key
        return Pending(view.wait.key)

    def _check_one_wait(self, about: tuple[WaitKind, str, Json]) -> None:
        """Refuse a second question: a call has one result, so another answer would go nowhere.

        Only what this process has asked counts. After a crash a body that words its question anew gets the wait that it
        opened before.
        """
        if self._waits_about not in (None, about):
            told = (
                "ctx.ask: this call waits for something else already; ask all of it in one question"
            )
            raise InvalidInput(told, field="question", wanted="one question in a call")
        self._waits_about = about

    async def read(self, ref: str) -> bytes:
        """Return bytes that this session refers to; a digest that was guessed is not among them."""
        if ref not in self.turn.blobs and ref not in attached_to(self.messages):
            raise ToolError("There is no attachment of this id in this session.")
        return await self.turn.services.store.get_blob(ref)

    async def emit_trigger(
        self, source: EventSource | str, event: object, key: str | None, ordinal: int
    ) -> str:
        """Raise a trigger, in the transaction of what the turn writes next."""
        turn = self.turn
        services = turn.services
        emission = Emitter(services.store, services.sources).emission(
            source,
            event,
            f"{self.idempotency_key}.{ordinal}" if key is None else key,
            now_ms=services.clock.now_ms(),
            by=turn.session_id,
        )
        turn.lane.run_errand(emission.errand)
        return emission.errand.turn_id

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Ask a model."""
        return await self.models.direct(request, self.place, f"tool:{self.call.name}")

    async def start(
        self, process: AnyProcess, process_id: str | None, args: Mapping[str, Any], occurrence: int
    ) -> ProcessRef:
        """Start a process; the same one when the body runs again."""
        turn = self.turn
        store, now_ms = turn.services.store, turn.services.clock.now_ms()
        if process_id is None:
            names = (turn.session_id, turn.turn_id, self.place, occurrence)
            process_id = derived_session_id(store.secret, "process", *names)
        ref = process_ref(store.secret, process_id)
        errand = beginning(ref, process, args, now_ms=now_ms)
        # Checked here: the store drops a conflicting errand, and only the log would say so.
        known = await store.load_turn(ref.session_id, FIRST_TURN)
        if known is not None and known.request_digest != errand.turn.request.digest():
            said = f"process {ref.id}: was already started with other arguments"
            raise IdempotencyConflict(said, field="id")
        turn.lane.run_errand(errand)
        await turn.lane.durable()
        return ref
