"""The tool: a function that a model may call, with what a crash may do to it.

Length: what a body is told and may ask for is one object, and is read as a whole.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeAlias, TypeVar

from windlass.errors import ConfigError, InvalidInput
from windlass.guards import check_text
from windlass.guards.limits import check_seconds
from windlass.journal import Contract
from windlass.kernel import Attachment, Json, Message, ModelReply, ModelRequest, ToolSpec
from windlass.ports.policy import Risk

if TYPE_CHECKING:
    from windlass.ports.children import Child, ChildView
    from windlass.ports.process import AnyProcess, ProcessRef
    from windlass.ports.trigger import EventSource

D_co = TypeVar("D_co", covariant=True)
D_contra = TypeVar("D_contra", contravariant=True)
Expose: TypeAlias = Literal["always", "deferred", "hidden"]


class Done:
    """A reconciler's answer: the call did act, and this is its result.

    Args:
        value: What the call returned, as the model is told.
    """

    __slots__ = ("value",)

    def __init__(self, value: object = None) -> None:
        self.value = value


class NotDone:
    """A reconciler's answer: the call did not act; it may run."""

    __slots__ = ()


class Unknown:
    """A reconciler's answer: it cannot tell; a person is asked."""

    __slots__ = ()


Reconciled: TypeAlias = Done | NotDone | Unknown


class Pending:
    """What `ctx.defer` and `ctx.ask` give: a result that is delivered later, under this key.

    Attributes:
        key: What `rt.resolve` or `rt.reject` answers it by; a secret.
    """

    __slots__ = ("key",)

    def __init__(self, key: str) -> None:
        self.key = key


class Again(Exception):
    """What a tool raises to run again later: `raise Again(after=3600, reason="the batch is not done")`.

    Until then the call has no result, and its turn parks once nothing else of it runs. Tools with the effect `pure`,
    `idempotent` or `keyed` may raise it. The body runs from its beginning, with `ctx.attempt` one higher and the same
    `ctx.idempotency_key`.

    Args:
        after: Seconds until it runs again.
        reason: Why, as a text for people who look at the wait.
    """

    def __init__(self, after: float, reason: str = "") -> None:
        check_seconds(after, field="Again.after")
        if after is None:
            raise InvalidInput.at("Again.after", "None", "seconds of 0 or more")
        super().__init__(after, reason)
        self.after = after
        self.reason = check_text(reason, field="Again.reason")


class ToolHost(Protocol):
    """What stands behind a context: the turn that runs the call."""

    @property
    def is_cancelled(self) -> bool: ...

    @property
    def idempotency_key(self) -> str: ...

    def progress(self, data: Json) -> None: ...

    async def attach(self, data: bytes, media_type: str, name: str | None) -> Attachment: ...

    async def defer(self, deadline_s: float | None) -> Pending: ...

    async def ask(
        self, question: str, schema: Mapping[str, Any] | None, deadline_s: float | None
    ) -> Pending: ...

    async def complete(self, request: ModelRequest) -> ModelReply: ...

    @property
    def messages(self) -> Sequence[Message]: ...

    async def read(self, ref: str) -> bytes: ...

    async def spawn(self, agent: object, text: str, name: str | None, nth: int) -> Child: ...

    async def send(self, child: str, text: str, nth: int) -> None: ...

    async def stop(self, child: str) -> bool: ...

    async def children(self) -> tuple[ChildView, ...]: ...

    async def start(
        self, process: AnyProcess, process_id: str | None, args: Mapping[str, Any], occurrence: int
    ) -> ProcessRef: ...

    async def emit_trigger(
        self, source: EventSource | str, event: object, key: str | None, ordinal: int
    ) -> str: ...


class ToolContext(Generic[D_co]):
    """What a tool is told about its call. Ask for it as the first parameter.

    Attributes:
        deps: What `Runtime(deps=...)` made for this drive, or what came with `run(deps=...)`.
        session_id: The session that the call belongs to.
        turn_id: The turn that the call belongs to.
        call_id: The id that the model gave this call.
        attempt: Which attempt of the call this is, from 1.
        idempotency_key: The same over attempts, recoveries and workers, and different for every call.
        host: The turn behind the context; None in a context that a test made.
    """

    __slots__ = (
        "_host", "_idempotency_key", "_n_acts", "attempt", "call_id", "deps", "session_id", "turn_id",
    )  # fmt: skip

    def __init__(  # noqa: PLR0913 - what a tool is told
        self,
        *,
        deps: D_co,
        session_id: str = "",
        turn_id: str = "",
        call_id: str = "",
        attempt: int = 1,
        idempotency_key: str = "",
        host: ToolHost | None = None,
    ) -> None:
        self.deps = deps
        self.session_id = session_id
        self.turn_id = turn_id
        self.call_id = call_id
        self.attempt = attempt
        self._idempotency_key = idempotency_key
        self._host = host

    @property
    def idempotency_key(self) -> str:
        """What the tool hands to the world: the same over attempts, recoveries and workers."""
        if not self._idempotency_key and self._host is not None:
            self._idempotency_key = self._host.idempotency_key
        return self._idempotency_key

    @property
    def cancelled(self) -> bool:
        """Whether the turn was cancelled: a long tool looks here and stops."""
        return self._host is not None and self._host.is_cancelled

    def progress(self, data: Json = None) -> None:
        """Show how far it is. A preview: nothing is stored. May be called from any thread.

        Args:
            data: Any JSON, such as `{"percent": 50}`.
        """
        if self._host is not None:
            self._host.progress(data)

    async def attach(
        self, data: bytes, *, media_type: str = "application/octet-stream", name: str | None = None
    ) -> Attachment:
        """Keep bytes and return what refers to them; part of a result, the model sees it.

        Args:
            data: The content of the file.
            media_type: What kind of file it is, such as `image/png`.
            name: The file's name as the model is to see it.
        """
        return await self._behind.attach(data, media_type, name)

    async def defer(self, *, deadline: float | None = None) -> Pending:
        """Open a wait for a result that comes from outside, under the key of what is returned.

        The wait is durable when this returns: hand its key out, then return it from the tool.
        After `deadline` seconds without an answer the call fails.

        Args:
            deadline: Seconds until the call fails without an answer; None waits for as long as it takes.
        """
        return await self._behind.defer(deadline)

    async def ask(
        self,
        question: str,
        *,
        schema: Mapping[str, Any] | None = None,
        deadline: float | None = None,
    ) -> Pending:
        """Put a question to a person; the answer becomes the result of the call.

        The question is durable when this returns: return what it gives from the tool. A person answers in
        `windlass chat`, with `windlass answer` or with `rt.resolve(key, value)`, today or next week. A call asks one
        question; a body that runs again gets the wait that it opened before.

        Args:
            question: What the person reads.
            schema: The JSON schema of the answer. Another answer is refused to the person who gives it.
            deadline: Seconds until the call fails without an answer; None waits for as long as it takes.

        Raises:
            InvalidInput: the question has no words, the schema has something that answers are not checked by, or this
                call waits for something else already.
        """
        return await self._behind.ask(question, schema, deadline)

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Ask a model from inside a tool. Recorded: asked again after a crash, it is not bought again.

        Args:
            request: What to ask: the model's name, messages, tools.
        """
        return await self._behind.complete(request)

    @property
    def messages(self) -> Sequence[Message]:
        """The history of this frame, with what the turn added so far: whole, whatever the model is shown of it."""
        return self._behind.messages

    async def read(self, ref: str) -> bytes:
        """Return the bytes that an attachment of this session refers to.

        Args:
            ref: The `ref` of an `Attachment` in the history of this frame.

        Raises:
            ToolError: nothing in the history of this frame refers to them.
        """
        return await self._behind.read(ref)

    async def start(
        self,
        process: AnyProcess,
        *,
        id: str | None = None,
        args: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> ProcessRef:
        """Start a process that belongs to this session. When this returns it has started, whatever happens to the turn.

        Args:
            process: The process, or its name.
            id: Its id; by default it derives from this call, so that a body that runs again starts no second process.
            args: The arguments of its function that are called `id` or `args`.
            **more: The arguments of its function.

        Raises:
            ArgsInvalid: the process does not take these arguments.
            IdempotencyConflict: the id is known with other arguments.
        """
        given = {**(args or {}), **more}
        return await self._behind.start(process, id, given, self._next_act())

    # ------------------------------------------------------------------ children

    async def spawn(self, agent: object, input: str, *, name: str | None = None) -> Child:
        """Begin a turn of another agent in a session of its own, and do not wait for it.

        The child is durable when this returns. When it ends, its answer enters the turn that runs in this session, or
        begins one. A body that runs again after a crash finds the child that it began before.

        Args:
            agent: The agent, or its name. Some worker must have it.
            input: The input of the child's turn.
            name: Its name among the children of this session; by default its agent's name and a few digits.

        Raises:
            ToolError: it would be too deep in its tree, or the limit of children at work is reached.
        """
        return await self._behind.spawn(agent, input, name, self._next_act())

    async def send(self, child: Child | str, text: str) -> None:
        """Tell a child of this session something: the text enters the turn that runs there, or begins one.

        If it begins a turn, the end of that turn wakes this session.

        Args:
            child: What `spawn` returned, a child's name, or its session's id.
            text: What the child reads.

        Raises:
            ToolError: this session has no such child.
        """
        await self._behind.send(_name_of(child), text, self._next_act())

    async def stop(self, child: Child | str) -> bool:
        """Ask a child of this session to stop; return whether it was at work.

        Args:
            child: What `spawn` returned, a child's name, or its session's id.

        Raises:
            ToolError: this session has no such child.
        """
        return await self._behind.stop(_name_of(child))

    async def children(self) -> tuple[ChildView, ...]:
        """Return the children of this session and their current states, the oldest first."""
        return await self._behind.children()

    def _next_act(self) -> int:
        # Counts what this attempt of the body begins or sends, mostly nothing: the ids derive from the count.
        self._n_acts: int = getattr(self, "_n_acts", 0) + 1
        return self._n_acts

    async def emit_trigger(
        self, source: EventSource | str, event: object, *, key: str | None = None
    ) -> str:
        """Raise a trigger, once; return the id of the occurrence. The next transaction of the turn stores it.

        Args:
            source: The `Source`, or its name. If this runtime does not know the name, the event is only checked as JSON.
            event: The payload: an object of the source's type, or JSON that fits it.
            key: Identifies the event within its source; by default it derives from the call, so that a body that runs
                again raises the same occurrence.

        Raises:
            InvalidInput: the payload does not fit; names the field.
        """
        return await self._behind.emit_trigger(source, event, key, self._next_act())

    @property
    def _behind(self) -> ToolHost:
        if self._host is None:
            raise ConfigError(
                "ToolContext: this one was made by hand; no turn runs it",
                field="host",
                wanted="a context that a turn handed to the tool",
            )
        return self._host


def _name_of(child: Child | str) -> str:
    return child if isinstance(child, str) else child.session_id


class Tool(Protocol):
    """A tool as the turn runner sees it. `windlass.tool` makes one of a function."""

    @property
    def spec(self) -> ToolSpec: ...
    @property
    def effect(self) -> Contract: ...
    @property
    def approval(self) -> Literal["never", "ask"] | Callable[..., object]: ...
    @property
    def risk(self) -> Risk: ...
    @property
    def timeout(self) -> float | None: ...
    @property
    def retries(self) -> int: ...
    @property
    def sequential(self) -> bool: ...
    @property
    def output_limit(self) -> int | None: ...
    @property
    def expose(self) -> Expose: ...

    def check(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments as the body takes them.

        Raises:
            ArgsInvalid: naming the argument, what was found and what was wanted.
        """
        ...

    async def run(self, ctx: ToolContext[Any], args: Mapping[str, Any]) -> object:
        """Run the body with checked arguments and return what it returns."""
        ...

    async def reconcile(self, ctx: ToolContext[Any], args: Mapping[str, Any]) -> Reconciled:
        """Say whether an earlier attempt acted."""
        ...

    async def needs_approval(self, ctx: ToolContext[Any], args: Mapping[str, Any]) -> bool:
        """Whether this call is to be put to a person, by the tool's own declaration."""
        ...


class ToolFor(Tool, Protocol[D_contra]):
    """A tool that works with deps of a type. One that needs less, or nothing, is one, too."""

    async def run(self, ctx: ToolContext[D_contra], args: Mapping[str, Any]) -> object:
        """Run the body with checked arguments and return what it returns."""
        ...


class ToolProvider(Protocol):
    """Tools that are looked up anew for each iteration, such as those of a server."""

    def tools(self, context: Mapping[str, Any]) -> Awaitable[list[Tool]] | list[Tool]: ...
