"""A session: one conversation or task, by its id. Making one costs nothing; its methods do the work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypedDict, TypeVar, Unpack, overload

import msgspec

from windlass.api.adapters import model_is_known
from windlass.api.machinery import Machinery, fresh_id
from windlass.api.node import Node, nodes_of
from windlass.api.observation import Observation
from windlass.api.turn_handle import TurnHandle
from windlass.api.turn_input import Input, read_input
from windlass.api.turn_result import TurnResult
from windlass.api.turn_stream import TurnStream
from windlass.api.usage_report import UsageReport
from windlass.engines.mail import turn_of_item
from windlass.errors import ConfigError, InvalidInput, UnknownSession
from windlass.guards.ids import check_id
from windlass.guards.limits import check_limit
from windlass.guards.text import check_text
from windlass.kernel import canonical, events
from windlass.kernel.messages import ConversationRecord, Message, Part
from windlass.kernel.model_call import Generation
from windlass.kernel.value import Json, freeze
from windlass.ports import (
    DeleteReport,
    InboxReceipt,
    InboxView,
    NewItem,
    NewTurn,
    Store,
    TurnRequest,
    When,
    WithdrawReceipt,
)
from windlass.ports.model import Model
from windlass.runtime.deps_scope import NONE_GIVEN
from windlass.runtime.outputs import TypedOutput
from windlass.runtime.program import Output, Program, limits_record
from windlass.runtime.run_limits import Limits
from windlass.runtime.turn_start import overrides_record

O = TypeVar("O")  # noqa: E741 - the output's type
T = TypeVar("T")
_ATTACHED = (
    "an unfinished turn with the same input, left by a process that is gone, was gone on with"
)


class TurnOptions(TypedDict, total=False):
    """What may be said about one turn. `context` is JSON; a model is named or registered."""

    turn_id: str | None
    deps: Any
    model: str | Model | None
    prompt: str | None
    limits: Limits | None
    generation: Generation | None
    context: Mapping[str, Json] | None


class Session(Generic[O]):
    """One conversation, by id."""

    def __init__(self, machinery: Machinery, session_id: str, agent: str | None) -> None:
        self._machinery = machinery
        self._agent = agent
        self.id = check_id(session_id, field="session_id")

    # ------------------------------------------------------------------ turns

    @overload
    async def run(
        self, input: Input, *, output_type: type[T], **options: Unpack[TurnOptions]
    ) -> TurnResult[T]: ...
    @overload
    async def run(
        self, input: Input, *, output_type: None = None, **options: Unpack[TurnOptions]
    ) -> TurnResult[O]: ...
    async def run(
        self,
        input: Input,  # noqa: A002 - the public name
        *,
        output_type: Any = None,
        **options: Unpack[TurnOptions],
    ) -> TurnResult[Any]:
        """Run a turn and wait until it is done, or rests with an unanswered wait.

        Raises:
            IdempotencyConflict: `turn_id` is known with another request.
            SessionParked: an earlier turn of this session waits for answers.
        """
        handle, is_orphan = await self._begin(input, output_type, options)
        result = await handle.result()
        if is_orphan:
            result.issues = (*result.issues, events.Error(message=_ATTACHED, code="attached"))
        return result

    def stream(
        self,
        input: Input,  # noqa: A002 - the public name
        *,
        output_type: Any = None,  # noqa: ANN401 - a hint
        **options: Unpack[TurnOptions],
    ) -> TurnStream[O]:
        """Run a turn and watch it: `async with session.stream(...) as turn: async for event in turn`."""

        async def begin() -> TurnHandle[O]:
            handle, _ = await self._begin(input, output_type, options)
            return handle

        return TurnStream(self._machinery, self.id, begin)

    async def submit(
        self,
        input: Input,  # noqa: A002 - the public name
        *,
        output_type: Any = None,  # noqa: ANN401 - a hint
        **options: Unpack[TurnOptions],
    ) -> TurnHandle[O]:
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
        world = self._machinery.world
        _check_names(options)
        program = await self._program()
        output = TypedOutput(output_type) if output_type not in (None, str) else None
        context = _context(options.get("context"))
        overrides = _overrides(options, output, self._machinery, program)
        # Last, because it may keep files: a turn that is refused leaves nothing behind.
        parts = await read_input(given, world.store, now_ms=world.clock.now_ms())
        request = TurnRequest(input=parts, context=context, overrides=overrides)
        turn = NewTurn(
            agent=program.name if program is not None else await self._agent_name(),
            request=request,
            submitter=world.worker_id or None,
            now_ms=world.clock.now_ms(),
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
        world = self._machinery.world
        if when not in ("now", "next_turn"):
            raise InvalidInput("when: wanted now or next_turn", field="when")
        parts = await read_input(input, world.store, now_ms=world.clock.now_ms())
        content = {"parts": msgspec.to_builtins(parts)}
        item_id = check_id(key, field="key") if key is not None else fresh_id("n")
        item = NewItem(item_id=item_id, when=when, content=content)
        await self._machinery.engine.flush(self.id)
        try:
            receipt = await world.store.enqueue(self.id, item, now_ms=world.clock.now_ms())
        except UnknownSession:
            return await self._begin_with(item, parts)
        self._machinery.engine.wake(self.id)
        return receipt

    async def _begin_with(self, item: NewItem, parts: tuple[Part, ...]) -> InboxReceipt:
        """Let an item that arrives before the session is there begin its first turn."""
        world = self._machinery.world
        turn = NewTurn(
            agent=await self._agent_name(),
            request=TurnRequest(input=parts, overrides={"first_item": item.item_id}),
            submitter=world.worker_id or None,
            now_ms=world.clock.now_ms(),
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
        view = await self._store.load_session(self.id)
        return tuple(
            node.message
            for page in view.pages
            for node in page.nodes
            if isinstance(node, ConversationRecord)
        )

    async def nodes(self) -> tuple[Node, ...]:
        """Return the session's nodes with their ids and parents."""
        return nodes_of(await self._store.load_session(self.id))

    async def usage(self) -> UsageReport:
        """Return what the session's committed turns used."""
        view = await self._store.load_session(self.id, history=False)
        return UsageReport.of(view.usage)

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
        now_ms = self._machinery.world.clock.now_ms()
        await self._store.fork(self.id, new_id, at=head, now_ms=now_ms)
        return Session(self._machinery, new_id, self._agent)

    async def _head_of(self, turn_id: str) -> int:
        view = await self._store.load_turn(self.id, turn_id)
        if view is None or view.receipt is None:
            raise InvalidInput(f"at: turn {turn_id} has not ended here", field="at")
        return view.receipt.head

    async def compact(self) -> None:
        """Refuse: this release cannot compact.

        Raises:
            ConfigError: always.
        """
        raise ConfigError("Session.compact: this release has no compaction", field="compact")

    async def release(self) -> None:
        """Unload the session from this process; it is read again when it is needed."""
        self._machinery.engine.forget(self.id)

    async def delete(self) -> DeleteReport:
        """Cancel what runs, then remove the session's payload. Its id is not used again."""
        view = await self._store.load_session(self.id, history=False)
        for turn_id in (view.active, *view.queued):
            if turn_id is not None:
                await self._machinery.cancel(self.id, turn_id, "the session is deleted")
                await self._machinery.engine.outcome(self.id, turn_id)
        self._machinery.engine.forget(self.id)
        now_ms = self._machinery.world.clock.now_ms()
        return await self._store.delete_session(self.id, now_ms=now_ms)

    @property
    def _store(self) -> Store:
        return self._machinery.world.store


def _check_names(options: TurnOptions) -> None:
    unknown = sorted(set(options) - set(TurnOptions.__annotations__))
    if unknown:
        raise TypeError(f"unexpected keyword argument {unknown[0]!r}")


def _context(given: object) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        found = type(given).__name__
        raise InvalidInput(
            f"context: found {found}, wanted a mapping", field="context", found=found
        )
    context: dict[str, Any] = freeze(dict(given), field="context")
    check_limit("metadata_bytes", len(canonical.encode(context)), field="context")
    return context


def _model_name(given: object, machinery: Machinery, program: Program | None) -> str | None:
    if given is None:
        return None
    registered = machinery.registered
    if isinstance(given, str):
        if given and (program is None or model_is_known(given, registered)):
            return given
        raise InvalidInput(
            "model: nobody here has this name; register one with Runtime(models=...)",
            field="model",
        )
    if not callable(getattr(given, "complete", None)):
        found = type(given).__name__
        raise InvalidInput(
            f"model: found {found}, wanted a Model or the name of one", field="model", found=found
        )
    model: Model = given  # type: ignore[assignment]  # it can complete
    registered.setdefault(model.name, model)
    return model.name


def _overrides(
    options: TurnOptions, output: Output | None, machinery: Machinery, program: Program | None
) -> dict[str, Any]:
    model = _model_name(options.get("model"), machinery, program)
    prompt = options.get("prompt")
    if prompt is not None:
        check_text(prompt, field="prompt")
        check_limit("input_text_bytes", len(prompt.encode()), field="prompt")
    limits, generation = options.get("limits"), options.get("generation")
    for name, found, wanted in (
        ("limits", limits, Limits), ("generation", generation, Generation),
    ):  # fmt: skip
        if found is not None and not isinstance(found, wanted):
            raise InvalidInput(
                f"{name}: found {type(found).__name__}, wanted {wanted.__name__}", field=name
            )
    return dict(
        overrides_record(
            model=model,
            prompt=prompt,
            limits=None if limits is None else limits_record(limits),
            generation=None if generation is None else _plain(generation),
            output=None if output is None else output.schema,
        )
    )


def _plain(generation: Generation) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(generation)
    plain.pop("type", None)
    return plain
