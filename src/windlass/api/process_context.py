"""The context of a process: the operations that its function awaits. Each is recorded.

Length: one method for each operation, and most lines describe its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from os import urandom
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol, TypeVar, overload
from uuid import UUID

from windlass.api.process_step import Reader, Step, as_plain
from windlass.errors import (
    InvalidInput,
    NoOutput,
    ProcessFailed,
    SessionDeleted,
    UnknownSession,
)
from windlass.guards import check_id, check_text
from windlass.guards.limits import check_seconds
from windlass.journal import Contract, ProcessCommand
from windlass.kernel import Json
from windlass.kernel.messages import Text
from windlass.kernel.value import thaw
from windlass.ports import CancelTurn, Errand, NewItem, PostItem, TurnRequest
from windlass.ports.children import ChildEnd
from windlass.ports.inbox import Wake
from windlass.ports.process import (
    FIRST_TURN,
    PROGRAM,
    AnyProcess,
    ProcessRef,
    ProcessSpec,
    beginning,
    process_name,
    process_ref,
)
from windlass.ports.tool import Tool
from windlass.ports.trigger import EventSource
from windlass.runtime.children import NewChild
from windlass.runtime.emitting import Emitter
from windlass.runtime.process_signals import pass_over
from windlass.tools.declaration import ToolOptions

if TYPE_CHECKING:
    from windlass.runtime.process_host import Made, ProcessHost

D_co = TypeVar("D_co", covariant=True)
S = TypeVar("S")
X = TypeVar("X")
_NOTHING: Any = object()
_SECOND_MS = 1_000


class Declared(ProcessSpec, Protocol):
    """What a context needs to know about its process."""

    def reader_of(self, name: str) -> Reader | None:
        """Return the reader of a signal's payload."""
        ...


class ProcessContext(Generic[D_co]):
    """The operations of a process. Await nothing else in its function: only these survive a crash.

    Attributes:
        deps: The deps that `Runtime(deps=...)` made for this drive.
        id: The id of the process.
        session_id: The session of the process.
    """

    def __init__(self, host: ProcessHost, process_id: str, spec: Declared) -> None:
        self._host = host
        self._spec = spec
        self.id = process_id
        self.session_id = host.turn.session_id

    @property
    def deps(self) -> D_co:
        """The deps that `Runtime(deps=...)` made for this drive."""
        return self._host.deps  # type: ignore[no-any-return]  # as its factory is declared

    @property
    def args(self) -> dict[str, Any]:
        """The arguments of this turn of the process, as JSON."""
        found: dict[str, Any] = thaw(self._host.turn.request.overrides.get("args") or {})
        return found

    # ------------------------------------------------------------------ work

    async def step(
        self,
        fn: Callable[..., object],
        *args: object,
        effect: Contract = "once",
        name: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - an option of the step
        retries: int = 0,
        **kwargs: object,
    ) -> Any:  # noqa: ANN401 - JSON, whatever the function returns
        """Call a function and record what it returns. Once that is recorded, the function is not called again.

        If the function has arguments named like these options, pass them by position, or use a lambda.

        Args:
            fn: The function, sync or async; a sync one runs in a thread. What it returns is recorded and returned as JSON.
            *args: Its arguments. They need a JSON form: windlass records them to notice changed code.
            effect: What a crash in the middle may do to it, as for a tool: `once` (never called again), `pure`,
                `idempotent` or `keyed` (called again).
            name: The name of the step; by default the function's name.
            timeout: Seconds for one attempt.
            retries: How often a failed attempt is repeated; not for `once`.
            **kwargs: More arguments of the function.

        Raises:
            ToolFailed, ToolTimeout: the function raised, or took too long.
            StepUnknown: a `once` step was interrupted or took too long: it is not known whether it acted.
        """
        options: ToolOptions = {"effect": effect, "timeout": timeout, "retries": retries}
        step = Step(fn, args, kwargs, name, options)
        return await self._host.call(step, step.recorded)

    async def tool(
        self,
        tool: Tool,
        /,
        args: Mapping[str, Any] | None = None,
        **more: object,
    ) -> Any:  # noqa: ANN401 - JSON
        """Call a tool as a model would, with its effect contract, and return its value.

        A process has no policy and no plugins: the tool's own `approval` decides whether a person is asked.

        Args:
            tool: A tool, made with `@tool`.
            args: Its arguments, as JSON.
            **more: More arguments of the tool.

        Raises:
            ToolFailed, ToolTimeout, ToolDenied, StepUnknown: how the call ended instead.
        """
        return await self._host.call(tool, {**(args or {}), **more})

    async def turn(self, agent: object, input: str, *, session: str | None = None) -> Any:  # noqa: ANN401 - its output
        """Run a turn of an agent and return its answer: text, or a value if the agent has an `output_type`.

        Args:
            agent: The agent, or its name.
            input: The input of the turn.
            session: The chat in which the turn runs; by default a session of its own.

        Raises:
            NoOutput: the turn ended without an answer.
        """
        host, name = self._host, str(getattr(agent, "name", agent))
        check_id(name, field="agent")
        check_text(input, field="input")
        place = self._place("child")
        child = NewChild(
            session_id=place if session is None else check_id(session, field="session"),
            turn_id="t" if session is None else place,
            agent=name,
            name=name,
            request=TurnRequest(input=(Text(text=input),)),
            kind="child" if session is None else "chat",
        )
        command = ProcessCommand(
            operation="await", process_id=child.session_id, name=name, args={"input": input}
        )
        answered = await host.turn_of(child, command)
        return thaw(
            _value_at(ChildEnd.of(answered.value), answered.value, f"turn of {name}", NoOutput)
        )

    # ------------------------------------------------------------------ waiting

    async def sleep(
        self, seconds: float = 0, *, minutes: float = 0, hours: float = 0, days: float = 0
    ) -> None:
        """Sleep. The time also passes while no worker runs; if it is over when one starts, the process continues.

        Args:
            seconds: How many seconds to sleep; the others are added.
            minutes: How many minutes to sleep.
            hours: How many hours to sleep.
            days: How many days of 24 hours to sleep.
        """
        try:
            total = timedelta(seconds=seconds, minutes=minutes, hours=hours, days=days)
        except (TypeError, ValueError, OverflowError):
            raise InvalidInput.at("sleep", "another value", "numbers, up to 10,000 years") from None
        check_seconds(total.total_seconds(), field="sleep")
        await self._host.sleep(int(total.total_seconds() * _SECOND_MS))

    @overload
    async def wait(
        self,
        signal: str,
        *,
        payload_type: type[S],
        timeout: float | timedelta | None = None,  # noqa: ASYNC109 - see below
    ) -> S: ...
    @overload
    async def wait(
        self,
        signal: str,
        *,
        payload_type: type[S],
        timeout: float | timedelta | None = None,  # noqa: ASYNC109 - see below
        default: X,
    ) -> S | X: ...
    @overload
    async def wait(
        self,
        signal: str,
        *,
        timeout: float | timedelta | None = None,  # noqa: ASYNC109 - see below
        default: Any = ...,  # noqa: ANN401 - what the caller wants
    ) -> Any: ...  # noqa: ANN401 - what was sent
    async def wait(
        self,
        signal: str,
        *,
        payload_type: Any = None,
        timeout: float | timedelta | None = None,  # noqa: ASYNC109 - of the wait, which outlives the process
        default: Any = _NOTHING,
    ) -> Any:
        """Wait for the next signal of a name and return its payload. Earlier signals are kept, in order.

        A payload that does not fit the type is passed over: its sender did not know the type. An issue of the process
        and the log say so, and the process waits on, until the same time.

        Args:
            signal: The name of the signal to wait for.
            payload_type: The type of the payload; by default the type in `@process(signals=...)`, or JSON.
            timeout: How long to wait: seconds, or a timedelta.
            default: What to return after the timeout; without it, `TimeoutError` is raised.

        Raises:
            TimeoutError: no signal that fits came in time.
        """
        check_id(signal, field="signal")
        reader = self._spec.reader_of(signal)
        if payload_type is not None:
            reader = Reader(payload_type, field=f"signal {signal}")
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        check_seconds(seconds, field="timeout")
        timeout_ms = None if seconds is None else int(seconds * _SECOND_MS)
        came = await self._host.signal(signal, timeout_ms)
        while came.answer.status == "answered":
            if reader is None:
                return thaw(came.answer.value)
            try:
                return reader.read(came.answer.value)
            except InvalidInput as error:
                pass_over(self._host.turn, signal, came, str(error))
            came = await self._host.signal(signal, timeout_ms, came.until_ms)
        if default is _NOTHING:
            raise TimeoutError(f"signal {signal}: did not come in time")
        return default

    # ------------------------------------------------------------------ values that are recorded

    async def now(self) -> datetime:
        """Return the time in UTC. It is recorded, so a replay sees the same time."""
        clock = self._host.turn.services.clock
        found = await self._host.read("now", clock.now_ms)
        return datetime.fromtimestamp(int(str(found)) / _SECOND_MS, UTC)

    async def random(self) -> float:
        """Return a random number from 0 to 1. It is recorded, so a replay sees the same number."""
        return float(str(await self._host.read("random", _random)))

    async def uuid(self) -> UUID:
        """Return a random UUID. It is recorded, so a replay sees the same UUID."""
        return UUID(
            str(await self._host.read("uuid", lambda: str(UUID(bytes=urandom(16), version=4))))
        )

    async def emit_trigger(
        self, source: EventSource | str, event: object, *, key: str | None = None
    ) -> str:
        """Raise a trigger, once; return the id of the occurrence.

        Args:
            source: The `Source`, or its name. If this runtime does not know the name, the event is only checked as JSON.
            event: The payload: an object of the source's type, or JSON that fits it.
            key: Identifies the event within its source; by default it derives from the place of this call.

        Raises:
            InvalidInput: the payload does not fit; names the field.
        """
        host, services = self._host, self._host.turn.services
        emitter = Emitter(services.store, services.sources)
        name = source if isinstance(source, str) else source.name
        emission = partial(emitter.emission, source, event, by=host.turn.session_id)
        # Checked here: inside an operation, a refusal would fail the turn instead of raising in the function.
        asked = emission("checked" if key is None else key, now_ms=0).errand.turn.request.overrides
        args = {"event": asked["event"], "key": key}
        command = ProcessCommand(operation="trigger", process_id=name, args=args)

        def raised(at: str) -> tuple[Json, tuple[Errand, ...]]:
            own = f"{host.turn.ids.prefix}.{at}"
            errand = emission(own if key is None else key, now_ms=services.clock.now_ms()).errand
            return errand.turn_id, (errand,)

        return str(await host.act(command, raised))

    async def version(self, name: str) -> bool:
        """Return whether this process runs the code of a version: False if it had passed this point before the version.

        Args:
            name: The version, such as `v2`.
        """
        check_id(name, field="name")
        return await self._host.version(name)

    # ------------------------------------------------------------------ telling others

    async def emit(self, name: str, value: Any = None) -> None:  # noqa: ANN401 - JSON
        """Tell observers something. It is a fact, shown once; the last value of each name is the record of the process.

        Args:
            name: The name of the event.
            value: Its value, any JSON.
        """
        check_id(name, field="name")
        await self._host.emit(name, as_plain(value, "value"))

    async def wake(self, session: str | None, text: str, *, event: str = "wake") -> None:
        """Tell a session something, once: the text enters the turn that runs there, or begins one.

        Args:
            session: The session; None: the session that the process belongs to at that time.
            text: What its agent reads.
            event: The kind of event.

        Raises:
            InvalidInput: `session` is None, and the process belongs to no session.
        """
        host = self._host
        if session is not None:
            check_id(session, field="session")
        check_text(text, field="text")
        check_id(event, field="event")
        to = session or self.session_id
        command = ProcessCommand(operation="wake", process_id=to, name=event, args={"text": text})

        async def post(at: str) -> Made:
            target = session or await self._belongs_to()
            if target is None:
                return "nowhere", ()
            number = int(at.rpartition(".")[2])
            content = Wake(event, text, self.id, number).as_content()
            item = NewItem(item_id=self._item(at), kind="wake", content=content)
            return None, (PostItem(session_id=target, item=item, now_ms=self._now_ms()),)

        if await host.act(command, post) == "nowhere":
            raise InvalidInput.at("session", "none that the process belongs to", "a session")

    # ------------------------------------------------------------------ other processes

    async def start(
        self,
        process: AnyProcess,
        *,
        id: str | None = None,
        args: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> ProcessRef:
        """Start a process that runs on its own, also after this process has ended. It belongs to this process's session.

        If the id is known with other arguments, the start is dropped: `rt.status()` shows it.

        Args:
            process: The process, or its name.
            id: Its id; by default it derives from the place of this call.
            args: The arguments of its function, for names such as `id`.
            **more: More arguments of its function.

        Raises:
            ArgsInvalid: the process does not take these arguments.
        """
        secret = self._host.turn.services.store.secret
        ref = process_ref(secret, self._place("process") if id is None else id)
        errand = beginning(ref, process, {**(args or {}), **more}, now_ms=self._now_ms())
        command = ProcessCommand(
            operation="start",
            process_id=ref.session_id,
            name=process_name(process),
            args=errand.turn.request.overrides["args"],
        )
        await self._host.act(command, lambda _: (None, (errand,)))
        return ref

    async def run(
        self,
        process: AnyProcess,
        *,
        args: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Any:  # noqa: ANN401 - JSON
        """Run another process and return its value, as JSON. Cancelling this process cancels it.

        Args:
            process: The process, or its name.
            args: The arguments of its function.
            **more: More arguments of its function.

        Raises:
            ArgsInvalid: the process does not take these arguments.
            ProcessFailed: it ended without a value.
        """
        place, name = self._place("process"), process_name(process)
        ref = process_ref(self._host.turn.services.store.secret, place)
        errand = beginning(ref, process, {**(args or {}), **more}, now_ms=self._now_ms())
        child = NewChild(
            session_id=ref.session_id,
            turn_id=FIRST_TURN,
            agent=f"{PROGRAM}{name}",
            name=name,
            request=errand.turn.request,
            kind="process",
            label=ref.id,
        )
        given = errand.turn.request.overrides["args"]
        command = ProcessCommand(
            operation="await", process_id=ref.session_id, name=name, args=given
        )
        answered = await self._host.turn_of(child, command)
        end = ChildEnd.of(answered.value)
        return thaw(_value_at(end, answered.value, f"process {name}", ProcessFailed))

    async def signal(
        self,
        process: ProcessRef | str,
        name: str,
        payload: Any = None,  # noqa: ANN401 - JSON
    ) -> None:
        """Send a signal to another process, once. If that process does not exist, it is dropped; `rt.status()` shows it.

        Args:
            process: What `start` returned, or the id of the process.
            name: The name of the signal.
            payload: Its payload: any JSON.
        """
        to = self._ref(process)
        check_id(name, field="name")
        content = {"name": name, "value": as_plain(payload, "payload"), "by": f"process {self.id}"}
        command = ProcessCommand(
            operation="signal", process_id=to.session_id, name=name, args=content["value"]
        )

        def post(at: str) -> Made:
            item = NewItem(item_id=self._item(at), kind="signal", when="asked", content=content)
            return None, (PostItem(session_id=to.session_id, item=item, now_ms=self._now_ms()),)

        await self._host.act(command, post)

    async def cancel_process(self, process: ProcessRef | str, reason: str = "") -> bool:
        """Ask another process to end; return whether it existed and had not ended.

        Args:
            process: What `start` returned, or the id of the process.
            reason: Goes into its outcome.
        """
        to = self._ref(process)
        check_text(reason, field="reason")
        command = ProcessCommand(
            operation="cancel", process_id=to.session_id, args={"reason": reason}
        )

        async def ask(_: str) -> Made:
            turn = self._host.turn
            await turn.lane.durable()  # this process may have started it a moment ago
            try:
                session = await turn.services.store.load_session(to.session_id, history=False)
            except (UnknownSession, SessionDeleted):
                return False, ()
            named = (session.active, *session.queued)
            errands: list[Errand] = [
                CancelTurn(session_id=to.session_id, turn_id=turn_id, reason=reason)
                for turn_id in named
                if turn_id is not None
            ]
            return bool(errands), tuple(errands)

        return await self._host.act(command, ask) is True

    def continue_as(self, **args: Any) -> NoReturn:
        """Continue with other arguments and an empty journal, in one commit. Code after this call does not run.

        The handle, the id, the record and the pending signals stay.

        Args:
            **args: The arguments of the function.

        Raises:
            ArgsInvalid: the function does not take these arguments.
        """
        given = args if self._spec.is_external else self._spec.check(args)
        self._host.continue_as(as_plain(dict(given), "args"))

    # ------------------------------------------------------------------ places

    def _place(self, kind: Any) -> str:  # noqa: ANN401 - a kind of session
        """Return the id of the session that the next operation of this task begins."""
        return self._host.derived_session(kind)

    def _item(self, at: str) -> str:
        return f"{self._host.turn.ids.prefix}.{at}"

    def _now_ms(self) -> int:
        return self._host.turn.services.clock.now_ms()

    def _ref(self, process: ProcessRef | str) -> ProcessRef:
        found = process if isinstance(process, str) else getattr(process, "id", None)
        if not isinstance(found, str):
            raise InvalidInput.at("process", type(process).__name__, "a process or its id")
        return process_ref(self._host.turn.services.store.secret, found)

    async def _belongs_to(self) -> str | None:
        """Return the session that the process belongs to now."""
        store = self._host.turn.services.store
        return (await store.load_session(self.session_id, history=False)).started_by


def _random() -> float:
    return (int.from_bytes(urandom(8)) >> 11) / 2**53


def _value_at(end: ChildEnd | None, said: Json, what: str, error: type[NoOutput]) -> Json:
    """Return the value of a turn in another session.

    Raises:
        NoOutput: it ended without a value, or could not begin.
    """
    if end is None:
        raise error(f"{what}: could not begin: {said}", field="turn")
    if not end.is_finished:
        raise error(f"{what}: {end.failure}", field="turn")
    return end.value
