"""A runtime: owns a store and a worker, opens sessions, drives and recovers turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Generic, Literal, Self, TypeVar, Unpack, overload

from windlass.api.adapters import Durability
from windlass.api.agent import Agent
from windlass.api.answers import Answers
from windlass.api.blocking import wait_for
from windlass.api.known_models import KnownModels
from windlass.api.machinery import Machinery, Settings
from windlass.api.session import Session
from windlass.api.status import RuntimeStatus
from windlass.api.turn_handle import TurnHandle
from windlass.api.turn_input import Input
from windlass.api.turn_options import WatchOptions
from windlass.api.turn_result import TurnResult
from windlass.api.usage_report import UsageReport
from windlass.errors import ConfigError, InvalidInput, SessionDeleted
from windlass.guards.ids import check_id
from windlass.guards.limits import check_limit
from windlass.guards.text import check_text
from windlass.journal import UsageLine
from windlass.ports import (
    CancelReceipt,
    SessionSummary,
    Store,
    VacuumReport,
    Wait,
    WaitReceipt,
)
from windlass.ports.clock import Clock
from windlass.ports.model import Model
from windlass.ports.plugin import Plugin
from windlass.ports.price import Price
from windlass.ports.probe import PhaseProbe
from windlass.runtime.plugin_set import PluginSet
from windlass.runtime.program import Program
from windlass.runtime.services import Approver
from windlass.runtime.system_clock import SystemClock

O = TypeVar("O")  # noqa: E741 - the output's type
P = TypeVar("P")
_DAY_S = 86_400.0


class Runtime(Generic[O]):
    """Drives the turns of its agents. `async with Runtime(agent, store="sqlite:///app.db") as rt`."""

    @overload
    def __init__(
        self: Runtime[Any],
        *,
        store: str | Store = ...,
        durability: Durability = ...,
        clock: Clock | None = ...,
        retention: float = ...,
    ) -> None: ...
    @overload
    def __init__(
        self,
        *agents: Agent[Any, O],
        store: str | Store = ...,
        engine: Literal["local"] = ...,
        deps: Callable[..., Any] | None = ...,
        approve: Approver | None = ...,
        plugins: Sequence[Plugin] = ...,
        trace: object = ...,
        worker: bool = ...,
        max_turns: int = ...,
        lease_s: float = ...,
        durability: Durability = ...,
        retention: float = ...,
        on_mismatch: Literal["park", "accept"] = ...,
        models: Sequence[Model] = ...,
        prices: Mapping[str, Price] | None = ...,
        clock: Clock | None = ...,
        probe: PhaseProbe | None = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: Runtime[Any],
        *agents: Agent[Any, Any],
        store: str | Store = ...,
        engine: Literal["local"] = ...,
        deps: Callable[..., Any] | None = ...,
        approve: Approver | None = ...,
        plugins: Sequence[Plugin] = ...,
        trace: object = ...,
        worker: bool = ...,
        max_turns: int = ...,
        lease_s: float = ...,
        durability: Durability = ...,
        retention: float = ...,
        on_mismatch: Literal["park", "accept"] = ...,
        models: Sequence[Model] = ...,
        prices: Mapping[str, Price] | None = ...,
        clock: Clock | None = ...,
        probe: PhaseProbe | None = ...,
    ) -> None: ...
    def __init__(  # noqa: PLR0913 - every setting has a default
        self,
        *agents: Agent[Any, O],
        store: str | Store = "sqlite:///windlass.db",
        engine: Literal["local"] = "local",
        deps: Callable[..., Any] | None = None,
        approve: Approver | None = None,
        plugins: Sequence[Plugin] = (),
        trace: object = None,
        worker: bool = True,
        max_turns: int = 32,
        lease_s: float = 15,
        durability: Durability = "power",
        retention: float = 7 * _DAY_S,
        on_mismatch: Literal["park", "accept"] = "park",
        models: Sequence[Model] = (),
        prices: Mapping[str, Price] | None = None,
        clock: Clock | None = None,
        probe: PhaseProbe | None = None,
    ) -> None:
        _check_settings(engine, trace, max_turns, lease_s, on_mismatch)
        _check_more(deps, approve, retention, worker, models)
        known = KnownModels(models)
        self._programs = _compiled(agents, known, _listed_plugins(plugins))
        self._retention_s = retention
        settings = Settings(
            store=store,
            durability=durability,
            clock=clock or SystemClock(),
            is_worker=worker,
            max_turns=max_turns,
            retention_ms=int(retention * 1000),
            prices=None if prices is None else _checked_prices(prices),
            services={
                "deps": deps,
                "approve": approve,
                "on_mismatch": on_mismatch,
                "probe": probe,
                "lease_ms": int(lease_s * 1000),
            },
        )
        self._machinery = Machinery(settings, self._programs, known)
        self._answers = Answers(self._machinery)

    # ------------------------------------------------------------------ opening and closing

    async def __aenter__(self) -> Self:
        await self._machinery.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._machinery.close()

    @overload
    def run_sync(
        self,
        session_id: str,
        input: Input,
        *,
        output_type: type[P],
        **options: Unpack[WatchOptions],
    ) -> TurnResult[P]: ...
    @overload
    def run_sync(
        self,
        session_id: str,
        input: Input,
        *,
        output_type: None = None,
        **options: Unpack[WatchOptions],
    ) -> TurnResult[O]: ...
    def run_sync(
        self,
        session_id: str,
        input: Input,  # noqa: A002 - the public name
        *,
        output_type: Any = None,
        **options: Unpack[WatchOptions],
    ) -> TurnResult[Any]:
        """Open the runtime, run one turn and close it again, for code that does not await."""

        async def run() -> TurnResult[Any]:
            async with self:
                session: Session[Any] = self.session(session_id)
                return await session.run(input, output_type=output_type, **options)

        return wait_for(run)

    # ------------------------------------------------------------------ sessions and turns

    @overload
    def session(self, id: str, agent: Agent[Any, P]) -> Session[P]: ...
    @overload
    def session(self, id: str, agent: str | None = None) -> Session[O]: ...
    def session(self, id: str, agent: Agent[Any, Any] | str | None = None) -> Session[Any]:
        """Return a session. No I/O: it is made when its first turn is accepted."""
        name = agent.name if isinstance(agent, Agent) else agent
        if name is not None and name not in self._programs:
            raise ConfigError(
                f"agent: {name} is none of this runtime's agents", field="agent", found=name
            )
        return Session(self._machinery, id, None if name is None else self._programs[name].name)

    def turn(self, session_id: str, turn_id: str) -> TurnHandle[O]:
        """Return a turn by its id, wherever it runs."""
        check_id(session_id, field="session_id")
        check_id(turn_id, field="turn_id")
        return TurnHandle(self._machinery, session_id, turn_id)

    async def sessions(self, *, after: str = "", limit: int = 100) -> tuple[SessionSummary, ...]:
        """Return sessions by id, a page at a time."""
        check_text(after, field="after")
        if type(limit) is not int or limit < 1:
            raise InvalidInput("limit: wanted a whole number of 1 or more", field="limit")
        check_limit("history_page", limit, field="limit")
        return await self._machinery.store.list_sessions(after=after, limit=limit)

    async def cancel(self, session_id: str, turn_id: str, reason: str = "") -> CancelReceipt:
        """Ask for a turn to end, wherever it runs."""
        return await self._machinery.cancel(session_id, turn_id, reason)

    async def retry(self, session_id: str, turn_id: str) -> bool:
        """Let a turn try again that is parked as poison, on a mismatch, or for a provider."""
        check_id(session_id, field="session_id")
        check_id(turn_id, field="turn_id")
        return await self._answers.retry(session_id, turn_id)

    # ------------------------------------------------------------------ waits

    async def waits(self, kind: str | None = None) -> tuple[Wait, ...]:
        """Return the open waits, oldest first."""
        return await self._machinery.open_waits(kind)

    async def approvals(self) -> tuple[Wait, ...]:
        """Return the open approvals, oldest first."""
        return await self.waits("approval")

    async def approve(
        self,
        key: str,
        *,
        edit: Mapping[str, Any] | None = None,
        remember: Literal["once", "session"] = "once",
        by: str | None = None,
    ) -> WaitReceipt:
        """Allow a call, with the arguments as they are or as you edit them."""
        return await self._answers.approve(key, edit=edit, remember=remember, by=by)

    async def deny(self, key: str, *, reason: str = "", by: str | None = None) -> WaitReceipt:
        """Do not allow a call; the reason goes to the model."""
        return await self._answers.deny(key, reason=reason, by=by)

    async def resolve(self, key: str, value: Any = None, *, by: str | None = None) -> WaitReceipt:  # noqa: ANN401 - JSON
        """Deliver what a wait is for."""
        return await self._answers.resolve(key, value, by=by)

    async def reject(self, key: str, error: str, *, by: str | None = None) -> WaitReceipt:
        """Say that what a wait is for will not come."""
        return await self._answers.reject(key, error, by=by)

    # ------------------------------------------------------------------ the whole

    async def usage(self) -> UsageReport:
        """Return what all sessions of the store have used."""
        lines: list[UsageLine] = []
        after = ""
        while page := await self.sessions(after=after):
            for one in page:
                with suppress(SessionDeleted):  # between the two looks
                    lines += await self._machinery.used(one.session_id)
            after = page[-1].session_id
        return UsageReport.of(lines, self._machinery.prices)

    async def vacuum(self) -> VacuumReport:
        """Reclaim journals of turns that ended longer ago than `retention`, and what nothing refers to."""
        return await self._machinery.store.vacuum(
            now_ms=self._machinery.clock.now_ms(), retention_ms=int(self._retention_s * 1000)
        )

    async def status(self) -> RuntimeStatus:
        """Return what this runtime does, and what it leaves alone."""
        services = self._machinery.services
        due = await services.store.due(self._machinery.clock.now_ms())
        waits = await self._machinery.open_waits()
        return RuntimeStatus(
            worker_id=services.worker_id or None,
            is_durable=services.store.is_durable,
            agents=self._machinery.names,
            driving=tuple(self._machinery.engine.driving),
            due=tuple(turn for turn in due.turns if turn.agent in self._programs),
            foreign=tuple(turn for turn in due.turns if turn.agent not in self._programs),
            open_waits=len(waits),
        )

    @property
    def processes(self) -> Any:  # noqa: ANN401 - not there yet
        """Refuse: this release has no processes."""
        raise ConfigError("Runtime.processes: this release has no processes", field="processes")

    @property
    def triggers(self) -> Any:  # noqa: ANN401 - not there yet
        """Refuse: this release has no triggers."""
        raise ConfigError("Runtime.triggers: this release has no triggers", field="triggers")


def _checked_prices(prices: object) -> Mapping[str, Price]:
    from windlass.models.prices import checked_prices  # noqa: PLC0415 - few give any

    return checked_prices(prices, field="Runtime.prices")


def _listed_plugins(plugins: object) -> tuple[Plugin, ...]:
    if not isinstance(plugins, (list, tuple)):
        found = type(plugins).__name__
        raise ConfigError(
            f"Runtime.plugins: found {found}, wanted a list of plugins",
            field="Runtime.plugins",
            found=found,
        )
    return PluginSet(plugins, field="Runtime.plugins").plugins


def _compiled(
    agents: Sequence[Agent[Any, Any]], models: KnownModels, plugins: Sequence[Plugin]
) -> dict[str, Program]:
    programs: dict[str, Program] = {}
    for agent in agents:
        if not isinstance(agent, Agent):
            found = type(agent).__name__
            raise ConfigError(f"Runtime: found {found}, wanted agents", field="agents", found=found)
        program = agent.compiled(models, plugins)
        models.add(program.model)
        for name in (agent.name, *agent.aliases):
            if name in programs:
                raise ConfigError(
                    f"Runtime: found two agents called {name}, wanted each name once",
                    field="agents",
                    found=name,
                )
            programs[name] = program
    return programs


def _check_more(
    deps: object, approve: object, retention: object, worker: object, models: object
) -> None:
    rules = {
        "deps": (deps is None or callable(deps), "a function of the turn"),
        "approve": (approve is None or callable(approve), "a function of the wait"),
        "retention": (
            type(retention) in (int, float) and 0 <= retention < 1e12,  # type: ignore[operator]  # a number
            "seconds of 0 or more",
        ),
        "worker": (isinstance(worker, bool), "True or False"),
    }
    if not isinstance(models, (list, tuple)):
        found = type(models).__name__
        raise ConfigError(f"Runtime.models: found {found}, wanted a list of models", field="models")
    for at, model in enumerate(models):
        is_model = callable(getattr(model, "complete", None)) and hasattr(model, "name")
        rules[f"models[{at}]"] = (is_model, "a Model")
    for field, (holds, wanted) in rules.items():
        if not holds:
            raise ConfigError(f"Runtime.{field}: wanted {wanted}", field=field, wanted=wanted)


def _check_settings(
    engine: object,
    trace: object,
    max_turns: object,
    lease_s: object,
    on_mismatch: object,
) -> None:
    rules = {
        "engine": (engine == "local", "local; this release has no other"),
        "trace": (trace is None, "None; this release has no traces"),
        "max_turns": (type(max_turns) is int and max_turns > 0, "a whole number above 0"),
        "lease_s": (
            type(lease_s) in (int, float) and 0.1 <= lease_s <= 3600,  # type: ignore[operator]  # a number
            "0.1 to 3600 seconds",
        ),
        "on_mismatch": (on_mismatch in ("park", "accept"), "park or accept"),
    }
    for field, (holds, wanted) in rules.items():
        if not holds:
            raise ConfigError(f"Runtime.{field}: wanted {wanted}", field=field, wanted=wanted)
