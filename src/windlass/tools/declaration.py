"""How a tool is declared: what a crash may do to it, who must approve, how long and how often it runs.

A wrong declaration is refused when the tool is made, never while a turn runs.
"""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, TypedDict, get_args

from windlass.errors import ConfigError, ToolFailed
from windlass.journal import Contract
from windlass.kernel import ToolSpec, canonical
from windlass.ports.policy import Risk
from windlass.ports.tool import Done, Expose, NotDone, Reconciled, ToolContext, Unknown
from windlass.tools.body import Body

Approval: TypeAlias = Literal["never", "ask"] | Callable[..., bool | Awaitable[bool]]
Reconciler: TypeAlias = Callable[..., Reconciled | Awaitable[Reconciled]]
Previewer: TypeAlias = Callable[..., str | Awaitable[str]]

_VERSION_CHARS: Final = 16
_ATOMS: Final = frozenset({str, int, float, bool, type(None)})


class ToolOptions(TypedDict, total=False):
    """The options of every tool."""

    effect: Contract
    approval: Approval
    risk: Risk
    timeout: float | None
    retries: int
    not_started_retries: bool
    sequential: bool
    output_limit: int | None
    expose: Expose
    background: bool
    reconcile: Reconciler | None
    preview: Previewer | None


class DeclaredTool:
    """What every tool has, with any kind of body. It never changes after it is made."""

    # What the arguments are that a call leaves out.
    defaults: Mapping[str, object] = MappingProxyType({})

    def __init__(self, spec: ToolSpec, body: Callable[..., object], options: ToolOptions) -> None:
        field = f"tool {spec.name}"
        _check_options(options, field)
        reconcile = options.get("reconcile")
        self.spec = spec
        self._body = Body(body, name=field)
        self.effect: Contract = _effect(options, field)
        self.approval: Approval = options.get("approval", "never")
        self.risk: Risk = options.get("risk", "low")
        self.timeout = options.get("timeout")
        self.retries = options.get("retries", 0)
        self.sequential = options.get("sequential", False)
        self.output_limit = options.get("output_limit")
        self.expose: Expose = options.get("expose", "always")
        self.background = options.get("background", False)
        digest = canonical.digest([spec, {"effect": self.effect}])
        self.version = digest[:_VERSION_CHARS]
        self._approver = None
        if self.approval not in ("never", "ask"):
            self._approver = _Question(self.approval, field=f"{field}: approval")
        self._reconciler = None
        if reconcile is not None:
            self._reconciler = _Question(reconcile, field=f"{field}: reconcile")
        self._previewer = None
        if (preview := options.get("preview")) is not None:
            self._previewer = _Question(preview, field=f"{field}: preview")

    @property
    def name(self) -> str:
        """The name that the model calls."""
        return self.spec.name

    @property
    def is_async(self) -> bool:
        """Whether the function is awaited; else it runs in a thread."""
        return self._body.is_async

    async def reconcile(self, ctx: ToolContext[Any], args: Mapping[str, Any]) -> Reconciled:
        """Say whether an earlier attempt acted.

        Raises:
            ToolFailed: the reconciler returned something else. Errors that it raises pass through.
        """
        if self._reconciler is None:
            return Unknown()
        answer = await self._reconciler.put(ctx, args)
        if not isinstance(answer, Done | NotDone | Unknown):
            wanted = "Done(value), NotDone() or Unknown()"
            raise ToolFailed.at(f"tool {self.name}: reconcile", type(answer).__name__, wanted)
        return answer

    async def needs_approval(self, ctx: ToolContext[Any], args: Mapping[str, Any]) -> bool:
        """Whether a person must approve this call. Only a plain `False` says that no one has to."""
        if self._approver is None:
            return self.approval == "ask"
        return await self._approver.put(ctx, args) is not False

    @property
    def preview(self) -> Callable[[ToolContext[Any], Mapping[str, Any]], Awaitable[str]] | None:
        """What says what a call would do, for the person who is asked; None if the tool does not say."""
        return None if self._previewer is None else self._previewed

    async def _previewed(self, ctx: ToolContext[Any], args: Mapping[str, Any]) -> str:
        """Return what a call would do.

        Raises:
            ToolFailed: the function returned something else. Errors that it raises pass through.
        """
        assert self._previewer is not None  # noqa: S101 - else nobody is given this
        shown = await self._previewer.put(ctx, args)
        if not isinstance(shown, str):
            raise ToolFailed.at(f"tool {self.name}: preview", type(shown).__name__, "a text")
        return shown


class _Question:
    """A function of the user's that answers about a call, as `fn(ctx, args)` or `fn(args)`."""

    __slots__ = ("_body", "_takes_context")

    def __init__(self, fn: object, *, field: str) -> None:
        if not callable(fn):
            raise ConfigError.at(field, type(fn).__name__, "a function of (ctx, args) or (args)")
        takes = [n for n in (2, 1) if _takes(fn, n)]
        if not takes:
            raise ConfigError.at(field, "another signature", "a function of (ctx, args) or (args)")
        self._takes_context = takes[0] == 2
        self._body = Body(fn, name=field)

    async def put(self, ctx: ToolContext[Any], args: Mapping[str, Any]) -> object:
        given = own_copy(args)
        return await (self._body.ask(ctx, given) if self._takes_context else self._body.ask(given))


def own_copy(args: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments that the function may change: the next attempt gets them unchanged."""
    return {name: _copy(value) for name, value in args.items()}


def _copy(value: object) -> object:
    if type(value) in _ATOMS:
        return value
    if type(value) is list:
        return [_copy(item) for item in value]
    if type(value) is dict:
        return {key: _copy(item) for key, item in value.items()}
    return copy.deepcopy(value)


def has_only_atoms(args: Mapping[str, Any]) -> bool:
    """Whether no argument can be changed in place."""
    return _ATOMS.issuperset(map(type, args.values()))


def _takes(fn: Callable[..., object], n_args: int) -> bool:
    try:
        inspect.signature(fn).bind(*[None] * n_args)
    except (TypeError, ValueError):
        return False
    return True


def _effect(options: ToolOptions, field: str) -> Contract:
    effect = options.get("effect")
    if options.get("reconcile") is not None:
        if effect not in (None, "reconcile"):
            raise ConfigError.at(field, f"reconcile and effect={effect!r}", "one of the two")
        return "reconcile"
    if effect == "reconcile":
        raise ConfigError.at(field, "effect='reconcile' without a function", "reconcile=fn")
    effect = effect or "once"
    if effect == "once" and options.get("retries") and not options.get("not_started_retries"):
        raise ConfigError.at(
            field,
            "retries on a tool with effect='once', which is never run twice",
            "another effect, or not_started_retries=True with a body that raises "
            "ToolError(not_started=True) before it acts",
        )
    return effect


def _check_options(options: ToolOptions, field: str) -> None:
    known = ToolOptions.__annotations__
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise ConfigError.at(field, f"the option {unknown[0]}", "one of: " + ", ".join(known))
    for name, (is_right, wanted) in _RULES.items():
        if name in options and not is_right(value := options.get(name)):
            is_short = isinstance(value, str | int | float)
            found = repr(value)[:60] if is_short else type(value).__name__
            raise ConfigError.at(f"{field}: {name}", found, wanted)
    if options.get("background") and options.get("sequential"):
        wanted = "one of the two: what runs in the background is not among the calls of a reply"
        raise ConfigError.at(field, "background and sequential", wanted)


def is_background(tool: object) -> bool:
    """Whether the body of a tool runs in the background. A tool of another kind may not say so; an agent has no body."""
    return getattr(tool, "background", False) is True and getattr(tool, "agent", None) is None


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_size(value: object) -> bool:
    return value is None or (_is_count(value) and value != 0)


def _is_duration(value: object) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return value is None
    return math.isfinite(value) and value > 0


def _is_approval(value: object) -> bool:
    return value in ("never", "ask") or callable(value)


_Rule: TypeAlias = tuple[Callable[[Any], bool], str]


def _one_of(names: tuple[str, ...]) -> _Rule:
    return lambda value: isinstance(value, str) and value in names, "one of: " + ", ".join(names)


_FLAG: Final[_Rule] = (lambda value: isinstance(value, bool), "True or False")
_RULES: Final[dict[str, _Rule]] = {
    "effect": (_one_of(get_args(Contract))[0], "one of: pure, idempotent, keyed, once"),
    "approval": (_is_approval, "'never', 'ask' or a function"),
    "risk": _one_of(get_args(Risk)),
    "timeout": (_is_duration, "a finite number of seconds above 0, or None"),
    "retries": (_is_count, "a whole number, 0 or more"),
    "not_started_retries": _FLAG,
    "sequential": _FLAG,
    "output_limit": (_is_size, "a whole number of bytes above 0, or None"),
    "expose": _one_of(get_args(Expose)),
    "background": _FLAG,
}
