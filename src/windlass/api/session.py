"""A session: one conversation or task, by its id. Making one costs nothing; its methods do the work.

Length: most of it are the overloads that give a result the type of its output, and what each argument means.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from os import urandom
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack, overload

import msgspec

from windlass.api.nodes import Node, messages_of, nodes_of, part_of_turn
from windlass.api.trees import delete_tree, usage_of_tree
from windlass.api.turn_handle import TurnHandle, TurnStream
from windlass.api.turn_options import (
    Input,
    TurnOptions,
    WatchOptions,
    check_handler,
    check_names,
    read_by,
    read_context,
    read_input,
    read_overrides,
)
from windlass.api.turn_result import Collected, TurnResult
from windlass.api.usage_report import UsageReport, usage_of_session
from windlass.api.watching import Observation
from windlass.engines.hand_offs import OtherAgent
from windlass.errors import ConfigError, IdempotencyConflict, InvalidInput, UnknownSession
from windlass.folds.history import frame_in
from windlass.guards import check_id, check_limit, check_text
from windlass.guards.limits import check_page, check_seconds
from windlass.journal.redaction import cleaned
from windlass.kernel import Finished, Json, Message, Part, events
from windlass.ports import (
    DeleteReport,
    InboxReceipt,
    InboxView,
    ItemState,
    NewItem,
    NewTurn,
    SessionView,
    Store,
    TurnRequest,
    TurnView,
    When,
    WithdrawReceipt,
)
from windlass.ports.children import ChildView
from windlass.ports.inbox import turn_of_item
from windlass.runtime.child_host import children_of
from windlass.runtime.outputs import TypedOutput
from windlass.runtime.program import Output
from windlass.runtime.starting import NONE_GIVEN
from windlass.runtime.turn_record import TurnRecord

if TYPE_CHECKING:
    from windlass.api.adapters import KnownModels
    from windlass.engines.admission import Admission
    from windlass.engines.worker import Worker

O = TypeVar("O")  # noqa: E741 - the output's type
T = TypeVar("T")
_ATTACHED = events.Error(
    code="attached",
    message="a process that is gone left an unfinished turn with the same input: this is the result of that turn",
)


class Session(Generic[O]):
    """One conversation or task. `runtime.session(id)` returns one; it is stored when its first turn is accepted.

    Attributes:
        id: What the caller chose to know it by; the same in every process.
    """

    def __init__(
        self, admission: Admission, models: KnownModels, session_id: str, agent: str | None
    ) -> None:
        self._admission = admission
        self._models = models
        # Whose it becomes if it is new. Whose it is, the store says: a turn may hand it off.
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
        self, input: Input, *, output_type: Any = None, **options: Unpack[WatchOptions]
    ) -> TurnResult[Any]:
        """Run a turn and wait until it is done, or parked with an unanswered wait.

        Args:
            input: Text, an `Attachment`, or a list of both.
            output_type: The type that the answer is to have; without it, what the agent says, or text.
            **options: `turn_id` makes the turn arrive once, however often this is called with it. `deps` are what its
                tools work with. `model`, `prompt`, `limits` and `generation` replace what the agent says. `context`
                is JSON that instructions, tools and plugins can read. `on_event` is called with each event of the
                turn, and awaited if need be; what it raises is raised here, and the turn goes on.

        Raises:
            IdempotencyConflict: `turn_id` is known with another request.
            SessionParked: an earlier turn of this session waits for answers.
        """
        on_event = options.pop("on_event", None)
        if on_event is None:
            handle = await self._begin(input, output_type, options)
            return await handle.result()
        check_handler(on_event)
        begin = partial(self._begin, input, output_type, options)
        async with TurnStream(self._admission, self.id, begin) as turn:
            return await turn.hand_to(on_event)

    @overload
    async def collect(
        self, input: Input, *, output_type: type[T], **options: Unpack[TurnOptions]
    ) -> Collected[T]: ...
    @overload
    async def collect(
        self, input: Input, *, output_type: None = None, **options: Unpack[TurnOptions]
    ) -> Collected[O]: ...
    async def collect(
        self, input: Input, *, output_type: Any = None, **options: Unpack[TurnOptions]
    ) -> Collected[Any]:
        """Run a turn and return all its events with its result. It takes what `run` takes, apart from `on_event`."""
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
        self, input: Input, *, output_type: Any = None, **options: Unpack[TurnOptions]
    ) -> TurnStream[Any]:
        """Run a turn and watch it: `async with session.stream(...) as turn: async for event in turn`.

        It takes what `run` takes, apart from `on_event`.
        """
        begin = partial(self._begin, input, output_type, options)
        return TurnStream(self._admission, self.id, begin)

    @overload
    async def submit(
        self, input: Input, *, output_type: type[T], **options: Unpack[TurnOptions]
    ) -> TurnHandle[T]: ...
    @overload
    async def submit(
        self, input: Input, *, output_type: None = None, **options: Unpack[TurnOptions]
    ) -> TurnHandle[O]: ...
    async def submit(
        self, input: Input, *, output_type: Any = None, **options: Unpack[TurnOptions]
    ) -> TurnHandle[Any]:
        """Accept a turn durably and return at once. A worker drives it after what came before it.

        It takes what `run` takes, apart from `on_event`.
        """
        async with self._admission.in_line(self.id):
            return await self._submit(input, output_type, options)

    async def _submit(
        self, given: Input, output_type: type[Any] | None, options: TurnOptions
    ) -> TurnHandle[Any]:
        worker = self._admission.worker
        agent = await self._agent_name()
        turn, output = await self._new_turn(given, output_type, options, worker, agent)
        # From before the turn, so that nothing of it is missed; if it is driven elsewhere, there is nothing live to see.
        live = worker.services.feeds.of(self.id).cursor if worker.can_drive(turn.agent) else ""
        turn_id = await self._admission.submit(
            self.id, options.get("turn_id"), turn, options.get("deps", NONE_GIVEN)
        )
        return TurnHandle(self._admission, self.id, turn_id, output=output, live=live)

    async def wait(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - the public name
        """Wait until nothing in the session is unfinished: no turn in flight, parked or queued, nothing to enter.

        It waits through parks, whoever answers them, and costs nothing until something happens. A session without any
        turn has nothing to wait for, and so has one with signals that no turn has asked for.

        Args:
            timeout: Seconds to wait; None waits for as long as it takes.

        Raises:
            TimeoutError: it took longer. The turns go on.
            EngineError: the runtime was closed while this waited. The turns go on when one is opened.
        """
        check_seconds(timeout, field="timeout")
        worker = self._admission.worker
        async with asyncio.timeout(timeout):
            await worker.flush(self.id)
            await self._admission.until_idle(self.id)

    async def _begin(
        self, given: Input, output_type: type[Any] | None, options: TurnOptions
    ) -> TurnHandle[Any]:
        async with self._admission.in_line(self.id):
            worker = self._admission.worker
            if not worker.programs:
                raise ConfigError(
                    "run: this runtime has no agents and drives nothing; submit() leaves the turn to a worker",
                    field="agents",
                )
            # If the session is another agent's by now, that is found where the turn begins.
            agent = self._agent
            if agent is None or not worker.has_one_agent:
                agent = await self._agent_name()
            while True:
                try:
                    return await self._begun(given, output_type, options, worker, agent)
                except OtherAgent as other:
                    agent = other.agent

    async def _begun(
        self,
        given: Input,
        output_type: type[Any] | None,
        options: TurnOptions,
        worker: Worker,
        agent: str,
    ) -> TurnHandle[Any]:
        admission = self._admission
        if agent not in worker.programs:
            raise ConfigError(
                f"run: session {self.id} belongs to the agent {agent}, which this runtime does not have; "
                "submit() leaves the turn to a worker that has it",
                field="agent",
            )
        turn, output = await self._new_turn(given, output_type, options, worker, agent)
        turn_id, is_orphan = await admission.run(
            self.id, options.get("turn_id"), turn, options.get("deps", NONE_GIVEN)
        )
        issues = (_ATTACHED,) if is_orphan else ()
        return TurnHandle(admission, self.id, turn_id, output=output, turn=turn, issues=issues)

    async def _new_turn(
        self,
        given: Input,
        output_type: type[Any] | None,
        options: TurnOptions,
        worker: Worker,
        agent: str,
    ) -> tuple[NewTurn, Output | None]:
        check_names(options)
        program, services = worker.programs.get(agent), worker.services
        if program is not None and "deps" in options:
            program.check_deps(options["deps"], field="deps")
        output = TypedOutput(output_type) if output_type not in (None, str) else None
        context = read_context(options.get("context"))
        overrides = read_overrides(options, output, self._models, program)
        now_ms = services.clock.now_ms()
        # Last, because it may store files: a turn that is refused leaves nothing behind.
        parts = await read_input(given, services.store, now_ms=now_ms)
        turn = NewTurn(
            agent=agent if program is None else program.name,
            request=cleaned(TurnRequest(input=parts, context=context, overrides=overrides)),
            submitter=services.worker_id or None,
            by=read_by(options.get("by")),
            now_ms=now_ms,
        )
        return turn, output

    async def _agent_name(self) -> str:
        """Return the agent that the session belongs to now; if it is new, the one that was named for it.

        Raises:
            ConfigError: the session is new, and there are several agents to choose from.
        """
        worker = self._admission.worker
        known = worker.agent_of(self.id)
        if known is not None:
            return known
        try:
            return (await self._store.load_session(self.id, history=False)).agent
        except UnknownSession:
            if self._agent is not None:
                return self._agent
            programs = worker.programs.values()
            n_agents = len({one.name for one in programs if one.code is None})
            raise ConfigError(
                f"agent: session {self.id} is new and this runtime has {n_agents} agents; "
                "name one: rt.session(id, agent)",
                field="agent",
            ) from None

    # ------------------------------------------------------------------ the inbox

    async def enqueue(
        self, input: Input, *, when: When = "now", key: str | None = None
    ) -> InboxReceipt:
        """Put something into the inbox: it enters the running turn at its next checkpoint, or begins a turn.

        Args:
            input: Text, an `Attachment`, or a list of both.
            when: `now`, or `next_turn` to wait until the running turn has ended.
            key: Makes the item arrive once, however often this is called with it.
        """
        async with self._admission.in_line(self.id):
            return await self._enqueue(input, when, key)

    async def _enqueue(self, given: Input, when: When, key: str | None) -> InboxReceipt:
        worker, services = self._admission.worker, self._admission.services
        if when not in ("now", "next_turn"):
            raise InvalidInput("when: wanted now or next_turn", field="when")
        parts = await read_input(given, services.store, now_ms=services.clock.now_ms())
        parts = cleaned(parts, tuple[Part, ...])
        content = {"parts": msgspec.to_builtins(parts)}
        item_id = check_id(key, field="key") if key is not None else f"n_{urandom(12).hex()}"
        item = NewItem(item_id=item_id, when=when, content=content)
        await worker.settled(self.id)
        if key is not None and (known := await self._known_first(item, parts)) is not None:
            return known
        try:
            receipt = await services.store.enqueue(self.id, item, now_ms=services.clock.now_ms())
        except UnknownSession:
            return await self._begin_with(item, parts)
        worker.wake(self.id)
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
                f"item {item.item_id}: was already given with other content", field="key"
            )
        state: ItemState = "settled" if view.state == "done" else "taken"
        return InboxReceipt(item_id=item.item_id, state=state, known=True)

    async def _begin_with(self, item: NewItem, parts: tuple[Part, ...]) -> InboxReceipt:
        """Begin the session's first turn with an item."""
        services = self._admission.services
        turn = NewTurn(
            agent=await self._agent_name(),
            request=TurnRequest(input=parts, overrides={"first_item": item.item_id}),
            submitter=services.worker_id or None,
            now_ms=services.clock.now_ms(),
        )
        await self._admission.accept(self.id, turn_of_item(item.item_id), turn)
        return InboxReceipt(item_id=item.item_id, state="taken")

    async def inbox(self) -> InboxView:
        """Return what waits to enter."""
        return await self._store.inbox(self.id)

    async def withdraw(self, item: str) -> WithdrawReceipt:
        """Take back an item that no turn has taken.

        Args:
            item: The `item_id` of its receipt, or the `key` it was enqueued with.
        """
        receipt = await self._store.withdraw(self.id, item)
        self._admission.worker.kick(self.id)  # what came behind it may come next
        return receipt

    # ------------------------------------------------------------------ reading

    async def history(
        self, *, before: int | None = None, limit: int | None = None
    ) -> tuple[Message, ...]:
        """Return the committed messages, oldest first.

        Args:
            before: Only those of turns before this one; the session's first turn is number 1.
            limit: Only those of so many turns, the last of them.
        """
        if before is None and limit is None:
            return messages_of((await self._store.load_session(self.id)).pages)
        if before is not None and (type(before) is not int or before < 1):
            raise InvalidInput("before: wanted the number of a turn, 1 or more", field="before")
        limit = None if limit is None else check_page(limit)
        return messages_of(await self._store.load_history(self.id, before=before, limit=limit))

    async def frame(self) -> tuple[Message, ...]:
        """Return the committed messages that the model is shown: those since the last compaction or repair."""
        view = await self._store.load_session(self.id, frame=True)
        return tuple(frame_in(view.pages))

    async def nodes(self) -> tuple[Node, ...]:
        """Return the session's nodes with their ids and parents."""
        return nodes_of(await self._store.load_session(self.id))

    async def usage(self, *, tree: bool = False) -> UsageReport:
        """Return what the session's turns used, the unfinished one so far included.

        Args:
            tree: Whether to add what the sessions below it used: its children, and theirs.
        """
        services = self._admission.services
        read = usage_of_tree if tree else usage_of_session
        return UsageReport.of(await read(services.store, self.id), services.prices)

    async def children(self, *, deep: bool = False) -> tuple[ChildView, ...]:
        """Return the sessions that this one began, each as it stands; the oldest first.

        Args:
            deep: Whether to return those below them, too, each behind the one that began it.
        """
        await self._admission.worker.flush(self.id)
        return await children_of(self._store, self.id, deep=deep)

    def observe(self, cursor: str | None = None) -> Observation:
        """Watch the session: its messages, the turn in flight, then events.

        Args:
            cursor: The `cursor` of an earlier observation or event, to go on behind it.
        """
        return Observation(self._admission, self.id, cursor)

    # ------------------------------------------------------------------ the session itself

    async def fork(
        self, at: str | int | None = None, id: str | None = None, *, iterations: int | None = None
    ) -> Session[O]:
        """Make a session that shares this one's history up to the end of a turn, or of an iteration inside a turn.

        The new session has no inbox, waits, usage, remembered decisions or turns of its own.

        Args:
            at: The id of the last turn to share, or how many turns; None shares all.
            id: The new session's id; None makes one.
            iterations: Share only so many iterations of the turn that `at` names: replies with the results of their calls.
                The turn may be unfinished, and goes on undisturbed.

        Raises:
            InvalidInput: the turn is not known here, or has not ended, or has not ended so many iterations.
            IdempotencyConflict: there is a session of this id.
        """
        new_id = check_id(id, field="id") if id is not None else f"s_{urandom(12).hex()}"
        if at is not None and type(at) not in (int, str):
            raise InvalidInput("at: wanted a turn's id or a count of turns", field="at")
        now_ms = self._admission.services.clock.now_ms()
        shared: dict[str, Any] = {"at": at}
        if iterations is not None:
            part = await part_of_turn(
                self._store, await self._turn_at(at), iterations, now_ms=now_ms
            )
            shared = {"at": part.turns, "page": part.page, "blobs": part.blobs}
        elif isinstance(at, str):
            shared["at"] = await self._head_of(at)
        try:
            await self._store.fork(self.id, new_id, now_ms=now_ms, **shared)
        except IdempotencyConflict as error:
            raise IdempotencyConflict(f"id: {error}", field="id") from None
        return Session(self._admission, self._models, new_id, self._agent)

    async def _head_of(self, turn_id: str) -> int:
        view = await self._store.load_turn(self.id, turn_id)
        if view is None or view.receipt is None:
            raise InvalidInput(
                f"at: turn {turn_id} has not ended here; `iterations` shares a part of an unfinished turn",
                field="at",
            )
        return view.receipt.head

    async def _turn_at(self, at: str | int | None) -> TurnView:
        """Return the turn that is shared in part."""
        if not isinstance(at, str):
            found = "nothing" if at is None else "a count of turns"
            raise InvalidInput.at("at", found, "the id of the turn whose iterations are shared")
        await self._admission.worker.flush(self.id)
        view = await self._store.load_turn(self.id, at)
        if view is None:
            raise InvalidInput(f"at: turn {at} is not known in session {self.id}", field="at")
        return view

    async def compact(
        self, *, instructions: str | None = None, turn_id: str | None = None
    ) -> TurnResult[str]:
        """Have the model summarize the session, and go on from the summary. What came before stays readable.

        It is a turn of its own and queues like any other. Two calls with nothing committed between them are one
        compaction. A session without anything to summarize is left as it is.

        Args:
            instructions: What the summary has to keep, in words for the model.
            turn_id: Makes it arrive once, however often a program is run again.

        Raises:
            IdempotencyConflict: `turn_id` is known with another request.
            SessionParked: an earlier turn of this session waits for answers.
        """
        wanted: dict[str, Json] = {}
        if instructions is not None:
            wanted["instructions"] = check_text(instructions, field="instructions")
            check_limit("input_text_bytes", len(instructions.encode()), field="instructions")
        return await self._open_frame(wanted, turn_id, "compact")

    async def repair(
        self, *, hide: Sequence[str] = (), attachments: bool = False, turn_id: str | None = None
    ) -> TurnResult[str]:
        """Go on without messages that a provider rejects: the model does not see them any more. No model is asked.

        It is a turn of its own that opens a frame with the rest of the history. What came before stays readable, with
        what was hidden.

        Args:
            hide: The ids of the messages.
            attachments: Whether the model sees the names of all attachments so far instead of the attachments.
            turn_id: Makes it arrive once, however often a program is run again.

        Raises:
            InvalidInput: there is nothing to hide, or no message of such an id that the model sees.
            IdempotencyConflict: `turn_id` is known with another request.
            SessionParked: an earlier turn of this session waits for answers.
        """
        listed = [hide] if isinstance(hide, str) else list(hide)
        if not listed and attachments is not True:
            raise InvalidInput.at("hide", "nothing to hide", "ids of messages, or attachments=True")
        if turn_id is None:  # else it may be done already, and the ids be those of the frame before
            known = {message.id for message in await self.frame()}
            for at, message_id in enumerate(listed):
                if message_id not in known:
                    found = "an id of no message that the model sees"
                    raise InvalidInput.at(f"hide[{at}]", found, "one that session.frame() lists")
        wanted = {"hide": listed, "attachments": attachments is True}
        return await self._open_frame(wanted, turn_id, "repair")

    async def _open_frame(
        self, wanted: dict[str, Json], turn_id: str | None, verb: str
    ) -> TurnResult[str]:
        if turn_id is not None:
            check_id(turn_id, field="turn_id")
        async with self._admission.in_line(self.id):
            handle = await self._begin_frame(wanted, turn_id, verb)
        return await handle.result() if isinstance(handle, TurnHandle) else handle

    async def _begin_frame(
        self, wanted: dict[str, Json], turn_id: str | None, verb: str
    ) -> TurnHandle[str] | TurnResult[str]:
        """Begin a turn that opens a frame; in a session without a history it is over."""
        view = await self._view()
        # Its id derives from the head, so that asking twice at one head is asking once.
        turn_id = turn_id or f"{verb}-{0 if view is None else view.head}"
        if view is None or not (view.head or view.active or view.queued or view.waiting):
            nothing = TurnRecord(session_id=self.id, turn_id=turn_id, outcome=Finished(), issues=())
            return TurnResult(nothing)
        services = self._admission.services
        turn = NewTurn(
            agent=view.agent,
            request=cleaned(TurnRequest(overrides={"compact": wanted})),
            submitter=services.worker_id or None,
            now_ms=services.clock.now_ms(),
        )
        # It calls no tools, so it needs no deps.
        turn_id, _ = await self._admission.run(self.id, turn_id, turn, deps=None)
        return TurnHandle(self._admission, self.id, turn_id, turn=turn)

    async def _view(self) -> SessionView | None:
        store = self._store
        # A turn that began a moment ago may be all that there is of the session.
        await self._admission.worker.flush(self.id)
        try:
            return await store.load_session(self.id, history=False)
        except UnknownSession:
            return None

    async def release(self) -> None:
        """Drop the session from this process's memory; it is read again when it is needed."""
        self._admission.worker.forget(self.id)

    async def delete(self) -> DeleteReport:
        """Cancel its unfinished turns, then remove what is stored of the session. Its id is not used again.

        What it began goes with it: its children, its processes and what is below them; but no chat. A turn is ended by a
        worker that has its agent; this waits until there is one, but no more than half a minute for those below.

        Raises:
            HeadMoved: a turn below it has not ended in that time. Nothing was removed.
        """
        return await delete_tree(self._admission, self.id, "the session is deleted")

    @property
    def _store(self) -> Store:
        return self._admission.services.store
