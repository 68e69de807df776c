"""The tool: a function that a model may call, with what a crash may do to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

from windlass.errors import ConfigError
from windlass.journal import Contract
from windlass.kernel import Attachment, Json, Message, ModelReply, ModelRequest, ToolSpec
from windlass.ports.policy import Risk

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
    """What `ctx.defer` gives: a result that is delivered later, under this key.

    Attributes:
        key: What `rt.resolve` or `rt.reject` answers it by; a secret.
    """

    __slots__ = ("key",)

    def __init__(self, key: str) -> None:
        self.key = key


class ToolHost(Protocol):
    """What stands behind a context: the turn that runs the call."""

    @property
    def is_cancelled(self) -> bool: ...

    @property
    def idempotency_key(self) -> str: ...

    def progress(self, data: Json) -> None: ...

    async def attach(self, data: bytes, media_type: str, name: str | None) -> Attachment: ...

    async def defer(self, deadline_s: float | None) -> Pending: ...

    async def complete(self, request: ModelRequest) -> ModelReply: ...

    @property
    def messages(self) -> Sequence[Message]: ...

    async def read(self, ref: str) -> bytes: ...


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
        "_host", "_idempotency_key", "attempt", "call_id", "deps", "session_id", "turn_id",
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

    @property
    def _behind(self) -> ToolHost:
        if self._host is None:
            raise ConfigError(
                "ToolContext: this one was made by hand; no turn runs it",
                field="host",
                wanted="a context that a turn handed to the tool",
            )
        return self._host


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
