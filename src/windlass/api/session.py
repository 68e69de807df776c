"""A session: one conversation or task, by its id. Making one costs nothing; its methods do the work."""

from __future__ import annotations

from typing import Any, Generic, TypeVar, Unpack, overload

import msgspec

from windlass.api.collected import Collected
from windlass.api.compaction import compact
from windlass.api.machinery import Machinery, fresh_id
from windlass.api.node import Node, messages_of, nodes_of
from windlass.api.observation import Observation
from windlass.api.turn_handle import TurnHandle
from windlass.api.turn_input import Input, read_input
from windlass.api.turn_options import (
    TurnOptions,
    WatchOptions,
    check_handler,
    check_names,
    read_context,
    read_overrides,
)
from windlass.api.turn_result import TurnResult
from windlass.api.turn_stream import TurnStream
from windlass.api.usage_report import UsageReport
from windlass.errors import (
    ConfigError,
    IdempotencyConflict,
    InvalidInput,
    UnknownSession,
)
from windlass.guards.ids import check_id
from windlass.kernel import events
from windlass.kernel.messages import Message, Part
from windlass.ports import (
    DeleteReport,
    InboxReceipt,
    InboxView,
    ItemState,
    NewItem,
    NewTurn,
    Store,
    TurnRequest,
    When,
    WithdrawReceipt,
)
from windlass.ports.inbox import turn_of_item
from windlass.runtime.outputs import TypedOutput
from windlass.runtime.program import Output, Program
from windlass.runtime.starting import NONE_GIVEN

O = TypeVar("O")  # noqa: E741 - the output's type
T = TypeVar("T")
_ATTACHED = (
    "an unfinished turn with the same input, left by a process that is gone, was gone on with"
)


class Session(Generic[O]):
    """One conversation, by id."""

    def __init__(self, machinery: Machinery, session_id: str, agent: str | None) -> None:
        self._machinery = machinery
        self._agent = agent
        self.id = check_id(session_id, field="session_id")

    # ------------------------------------------------------------------ turns

    @overload
    async def run(
        self, input: Input, *, output_type: type[T], **options: Unpack[WatchOptions]
    ) -> TurnResult[T]: ...
    @overload
    async def run(
        self, input: Input, *, output_type: None = None, **options: Unpack[WatchOptions]
    ) -> TurnResult[O]: ...
    async def run(
        self,
        input: Input,  # noqa: A002 - the public name
        *,
        output_type: Any = None,
        **options: Unpack[WatchOptions],
    ) -> TurnResult[Any]:
        """Run a turn and wait until it is done, or rests with an unanswered wait.

        `on_event` is called with each event of the turn meanwhile, and awaited if need be. What it raises is raised
        here; the turn goes on all the same.

        Raises:
            IdempotencyConflict: `turn_id` is known with another request.
            SessionParked: an earlier turn of this session waits for answers.
        """
        on_event = options.pop("on_event", None)
        check_handler(on_event)
        is_orphan = False

        async def begin() -> TurnHandle[Any]:
            nonlocal is_orphan
            handle, is_orphan = await self._begin(input, output_type, options)
            return handle

        if on_event is None:
            result = await (await begin()).result()
        else:
            async with TurnStream(self._machinery, self.id, begin) as turn:
                result = await turn.hand_to(on_event)
        if is_orphan:
            result.issues = (*result.issues, events.Error(message=_ATTACHED, code="attached"))
        return result

    @overload
    async def collect(
        self, input: Input, *, output_type: type[T], **options: Unpack[TurnOptions]
    ) -> Collected[T]: ...
    @overload
    async def collect(
        self, input: Input, *, output_type: None = None, **options: Unpack[TurnOptions]
    ) -> Collected[O]: ...
    async def collect(
        self,
        input: Input,  # noqa: A002 - the public name
        *,
        output_type: Any = None,
        **options: Unpack[TurnOptions],
    ) -> Collected[Any]:
        """Run a turn and return all that was shown of it, with what it came to."""
        check_names(options)
        seen: list[events.Event] = []
        result = await self.run(input, output_type=output_type, on_event=seen.append, **options)
        return Collected(tuple(seen), result)

    @overload
    def stream(
        self, input: Input, *, output_type: type[T], **options: Unpack[TurnOptions]
    ) -> TurnStream[T]: ...
    @overload
    def stream(
        self, input: Input, *, output_type: None = None, **options: Unpack[TurnOptions]
    ) -> TurnStream[O]: ...
    def stream(
        self,
        input: Input,  # noqa: A002 - the public name
        *,
        output_type: Any = None,
        **options: Unpack[TurnOptions],
    ) -> TurnStream[Any]:
        """Run a turn and watch it: `async with session.stream(...) as turn: async for event in turn`."""

        async def begin() -> TurnHandle[Any]:
            handle, _ = await self._begin(input, output_type, options)
            return handle

        return TurnStream(self._machinery, self.id, begin)

    @overload
    async def submit(
        self, input: Input, *, output_type: type[T], **options: Unpack[TurnOptions]
    ) -> TurnHandle[T]: ...
    @overload
    async def submit(
        self, input: Input, *, output_type: None = None, **options: Unpack[TurnOptions]
    ) -> TurnHandle[O]: ...
    async def submit(
        self,
        input: Input,  # noqa: A002 - the public name
        *,
        output_type: Any = None,
        **options: Unpack[TurnOptions],
    ) -> TurnHandle[Any]:
        """Accept a turn durably and return at once. It waits its turn, and is driven by whoever can."""
        turn, output = await self._new_turn(input, output_type, options)
        turn_id = await self._machinery.admission.submit(
            self.id, options.get("turn_id"), turn, options.get("deps", NONE_GIVEN)
        )
        return TurnHandle(self._machinery, self.id, turn_id, output=output)

    async def _begin(
        self,
        given: Input,
        output_type: Any,  # noqa: ANN401 - a hint
        options: TurnOptions,
    ) -> tuple[TurnHandle[Any], bool]:
        if not self._machinery.programs:
            raise ConfigError(
                "run: this runtime has no agents and drives nothing; submit() leaves the turn to a worker",
                field="agents",
            )
        if await self._program() is None:
            raise ConfigError(
                f"run: session {self.id} is of the agent {await self._agent_name()}, which this runtime does not "
                "have; submit() leaves the turn to a worker that has it",
                field="agent",
            )
        turn, output = await self._new_turn(given, output_type, options)
        turn_id, is_orphan = await self._machinery.admission.run(
            self.id, options.get("turn_id"), turn, options.get("deps", NONE_GIVEN)
        )
        handle: TurnHandle[Any] = TurnHandle(
            self._machinery, self.id, turn_id, output=output, turn=turn
        )
        return handle, is_orphan

    async def _new_turn(
        self,
        given: Input,
        output_type: Any,  # noqa: ANN401 - a hint
        options: TurnOptions,
    ) -> tuple[NewTurn, Output | None]:
        services = self._machinery.services
        check_names(options)
        program = await self._program()
        output = TypedOutput(output_type) if output_type not in (None, str) else None
        context = read_context(options.get("context"))
        overrides = read_overrides(options, output, self._machinery, program)
        # Last, because it may keep files: a turn that is refused leaves nothing behind.
        parts = await read_input(given, services.store, now_ms=services.clock.now_ms())
        request = TurnRequest(input=parts, context=context, overrides=overrides)
        turn = NewTurn(
            agent=program.name if program is not None else await self._agent_name(),
            request=request,
            submitter=services.worker_id or None,
            now_ms=services.clock.now_ms(),
        )
        own = None if program is None else program.output
        return turn, output or own

    async def _program(self) -> Program | None:
        name = await self._agent_name()
        return self._machinery.programs.get(name)

    async def _agent_name(self) -> str:
        if self._agent is None:
            self._agent = await self._machinery.agent_of(self.id)
        return self._agent

    # ------------------------------------------------------------------ the inbox

    async def enqueue(
        self,
        input: Input,  # noqa: A002 - the public name
        *,
        when: When = "now",
        key: str | None = None,
    ) -> InboxReceipt:
        """Put something into the inbox: it enters the running turn at its next checkpoint, or begins one."""
        services = self._machinery.services
        if when not in ("now", "next_turn"):
            raise InvalidInput("when: wanted now or next_turn", field="when")
        parts = await read_input(input, services.store, now_ms=services.clock.now_ms())
        content = {"parts": msgspec.to_builtins(parts)}
        item_id = check_id(key, field="key") if key is not None else fresh_id("n")
        item = NewItem(item_id=item_id, when=when, content=content)
        await self._machinery.engine.flush(self.id)
        if key is not None and (known := await self._known_first(item, parts)) is not None:
            return known
        try:
            receipt = await services.store.enqueue(self.id, item, now_ms=services.clock.now_ms())
        except UnknownSession:
            return await self._begin_with(item, parts)
        self._machinery.engine.wake(self.id)
        return receipt

    async def _known_first(self, item: NewItem, parts: tuple[Part, ...]) -> InboxReceipt | None:
        """Return the receipt of an item that began the session, when it comes again."""
        view = await self._store.load_turn(self.id, turn_of_item(item.item_id))
        if view is None or view.request is None:
            return None
        if view.request.overrides.get("first_item") != item.item_id:
            return None
        if view.request.input != parts:
            raise IdempotencyConflict(
                f"item {item.item_id}: is known with other content", field="key"
            )
        state: ItemState = "settled" if view.state == "done" else "taken"
        return InboxReceipt(item_id=item.item_id, state=state, known=True)

    async def _begin_with(self, item: NewItem, parts: tuple[Part, ...]) -> InboxReceipt:
        """Let an item that arrives before the session is there begin its first turn."""
        services = self._machinery.services
        turn = NewTurn(
            agent=await self._agent_name(),
            request=TurnRequest(input=parts, overrides={"first_item": item.item_id}),
            submitter=services.worker_id or None,
            now_ms=services.clock.now_ms(),
        )
        await self._machinery.admission.accept(self.id, turn_of_item(item.item_id), turn)
        return InboxReceipt(item_id=item.item_id, state="taken")

    async def inbox(self) -> InboxView:
        """Return what waits to enter."""
        return await self._store.inbox(self.id)

    async def withdraw(self, item: str) -> WithdrawReceipt:
        """Take back an item that no turn has taken."""
        return await self._store.withdraw(self.id, item)

    # ------------------------------------------------------------------ reading

    async def history(self) -> tuple[Message, ...]:
        """Return the committed messages, oldest first."""
        return messages_of(await self._store.load_session(self.id))

    async def nodes(self) -> tuple[Node, ...]:
        """Return the session's nodes with their ids and parents."""
        return nodes_of(await self._store.load_session(self.id))

    async def usage(self) -> UsageReport:
        """Return what the session's turns used, the unfinished one so far included."""
        return UsageReport.of(await self._machinery.used(self.id), self._machinery.prices)

    def observe(self, cursor: str | None = None) -> Observation:
        """Watch the session: the committed view, the turn in flight, then events."""
        return Observation(self._machinery, self.id, cursor)

    # ------------------------------------------------------------------ the session itself

    async def fork(self, at: str | int | None = None, id: str | None = None) -> Session[O]:
        """Begin a session that shares this one's history up to the end of a turn. Copies nothing."""
        new_id = check_id(id, field="id") if id is not None else fresh_id("s")
        if at is not None and type(at) not in (int, str):
            raise InvalidInput("at: wanted a turn's id or a count of turns", field="at")
        head = await self._head_of(at) if isinstance(at, str) else at
        now_ms = self._machinery.services.clock.now_ms()
        try:
            await self._store.fork(self.id, new_id, at=head, now_ms=now_ms)
        except IdempotencyConflict as error:
            raise IdempotencyConflict(f"id: {error}", field="id") from None
        return Session(self._machinery, new_id, self._agent)

    async def _head_of(self, turn_id: str) -> int:
        view = await self._store.load_turn(self.id, turn_id)
        if view is None or view.receipt is None:
            raise InvalidInput(f"at: turn {turn_id} has not ended here", field="at")
        return view.receipt.head

    async def compact(
        self, *, instructions: str | None = None, turn_id: str | None = None
    ) -> TurnResult[str]:
        """Let the model sum up what was said, and go on from there. What came before stays readable.

        It is a turn of its own and waits its turn. Asked for twice before anything else was committed it is one; a
        `turn_id` makes it one however often a program is run again. Where there is nothing to sum up, nothing happens.

        Raises:
            IdempotencyConflict: `turn_id` is known with another request.
            SessionParked: an earlier turn of this session waits for answers.
        """
        return await compact(self._machinery, self.id, instructions, turn_id)

    async def release(self) -> None:
        """Unload the session from this process; it is read again when it is needed."""
        self._machinery.engine.forget(self.id)

    async def delete(self) -> DeleteReport:
        """Cancel what runs, then remove the session's payload. Its id is not used again.

        A turn is ended by a worker that has its agent: where there is none, this waits for one.
        """
        view = await self._store.load_session(self.id, history=False)
        for turn_id in (view.active, *view.queued):
            if turn_id is not None:
                await self._machinery.cancel(self.id, turn_id, "the session is deleted")
                await self._machinery.engine.outcome(self.id, turn_id)
        self._machinery.engine.forget(self.id)
        now_ms = self._machinery.services.clock.now_ms()
        return await self._store.delete_session(self.id, now_ms=now_ms)

    @property
    def _store(self) -> Store:
        return self._machinery.services.store
