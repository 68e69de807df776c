"""A runtime: owns a store and a worker, opens sessions, drives and recovers turns.

Length: every setting is explained and checked here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from os import getpid, uname
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypedDict, TypeVar, Unpack, overload

from windlass.api.adapters import Durability, KnownModels, open_store
from windlass.api.agent import Agent, listed, run_blocking
from windlass.api.answers import Answering
from windlass.api.listing import Listing
from windlass.errors import ConfigError
from windlass.guards import check_id
from windlass.kernel.value import Value
from windlass.ports import (
    CancelReceipt,
    Clock,
    DueTurn,
    ErrandReceipt,
    Model,
    PhaseProbe,
    Plugin,
    Store,
    VacuumReport,
)
from windlass.ports.price import Price, checked_prices
from windlass.runtime.plugin_set import PluginSet
from windlass.runtime.program import Program

if TYPE_CHECKING:
    # Loaded when a runtime is made or opened: a program that only describes agents needs none of it.
    from windlass.api.session import Session
    from windlass.api.turn_handle import TurnHandle
    from windlass.api.turn_options import Input, WatchOptions
    from windlass.api.turn_result import TurnResult
    from windlass.engines.worker import Worker
    from windlass.runtime.services import Approver, Services

O = TypeVar("O")  # noqa: E741 - the output's type
P = TypeVar("P")
_DAY_S = 86_400.0
# How many turns of a kind a status shows.
_SHOWN = 100
_log = logging.getLogger("windlass")


class RuntimeStatus(Value, kw_only=True):
    """What a runtime is doing.

    worker_id: its id among the store's workers; None if it drives nothing.
    is_durable: whether its store outlives the process.
    driving: the sessions in which it drives a turn.
    due: turns that it could take up now; foreign: turns of agents that it does not have. Each has the oldest, and
        has_more says that there are more of one of them than it shows.
    dropped: the last errands of turns here whose target was gone.
    """

    worker_id: str | None
    is_durable: bool
    agents: tuple[str, ...]
    driving: tuple[str, ...] = ()
    due: tuple[DueTurn, ...] = ()
    foreign: tuple[DueTurn, ...] = ()
    has_more: bool = False
    open_waits: int = 0
    dropped: tuple[ErrandReceipt, ...] = ()


class RuntimeOptions(TypedDict, total=False):
    """What a runtime may be given beside its agents; `Runtime` says what each is for."""

    store: str | Store
    engine: Literal["local"]
    deps: Callable[..., Any] | None
    approve: Approver | None
    plugins: Sequence[Plugin]
    trace: object
    worker: bool
    max_turns: int
    lease_s: float
    durability: Durability
    retention: float
    on_mismatch: Literal["park", "accept"]
    models: Sequence[Model]
    prices: Mapping[str, Price] | None
    clock: Clock | None
    probe: PhaseProbe | None


class Runtime(Answering, Listing, Generic[O]):
    """Drives the turns of its agents: `async with Runtime(agent, store="sqlite:///app.db") as rt`.

    Args:
        *agents: The agents whose turns it drives. Without any it only reads, submits and answers.
        store: `sqlite:///FILE`, `memory:`, or a `Store` that the caller opens and closes.
        engine: What drives turns; this release has `local` only.
        deps: Makes what tools work with, once per drive: a function of `TurnInfo`, sync or async, that returns it or an
            async context manager of it.
        approve: Answers approvals in this process at once: a function of the `Wait`; True allows.
        plugins: Plugins for all agents; they come before an agent's own.
        trace: None; this release has no traces.
        worker: False: accept and watch turns, but leave driving to other processes.
        max_turns: How many turns to drive at a time.
        lease_s: After how many silent seconds other workers take over this one's turns.
        durability: What SQLite survives: `power` loss, or the end of the `process` only.
        retention: For how many seconds the journals of ended turns are kept.
        on_mismatch: What to do with a turn whose agent changed while it ran: `park` it, or `accept` the change.
        models: Models that turns may name.
        prices: Prices per model; they go before the prices that windlass knows.
        clock: Another clock than the system's, for tests.
        probe: Is told when a turn enters and leaves a phase, for measurements.
    """

    @overload
    def __init__(self: Runtime[Any], **options: Unpack[RuntimeOptions]) -> None: ...
    @overload
    def __init__(self, *agents: Agent[Any, O], **options: Unpack[RuntimeOptions]) -> None: ...
    @overload
    def __init__(
        self: Runtime[Any], *agents: Agent[Any, Any], **options: Unpack[RuntimeOptions]
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
        from windlass.engines.admission import Admission  # noqa: PLC0415 - see above
        from windlass.runtime.system_clock import SystemClock  # noqa: PLC0415 - imports asyncio

        _check("engine", engine == "local", "local; this release has no other")
        _check("trace", trace is None, "None; this release has no traces")
        _check("max_turns", type(max_turns) is int and max_turns > 0, "a whole number above 0")
        _check("lease_s", _is_within(lease_s, 0.1, 3600), "0.1 to 3600 seconds")
        _check("on_mismatch", on_mismatch in ("park", "accept"), "park or accept")
        _check("deps", deps is None or callable(deps), "a function of the turn")
        _check("approve", approve is None or callable(approve), "a function of the wait")
        _check("retention", _is_within(retention, 0, 1e12), "seconds of 0 or more")
        _check("worker", isinstance(worker, bool), "True or False")
        for at, model in enumerate(listed(models, "Runtime.models")):
            is_model = callable(getattr(model, "complete", None)) and hasattr(model, "name")
            _check(f"models[{at}]", is_model, "a Model")
        self._models = KnownModels(models)
        first = PluginSet(listed(plugins, "Runtime.plugins"), field="Runtime.plugins").plugins
        self._programs = _compiled(agents, self._models, first)
        self._names = tuple(dict.fromkeys(program.name for program in self._programs.values()))
        self._address, self._durability = store, durability
        # Made here already, so that a wrong address is refused where it is written.
        self._store: Store | None = open_store(store, durability)
        self._clock = clock or SystemClock()
        self._retention_ms = int(retention * 1000)
        self._for_worker: dict[str, Any] = {"is_worker": worker, "max_turns": max_turns}
        self._for_turns: dict[str, Any] = {
            "deps": deps,
            "approve": approve,
            "on_mismatch": on_mismatch,
            "probe": probe,
            "lease_ms": int(lease_s * 1000),
            "prices": None if prices is None else checked_prices(prices, field="Runtime.prices"),
        }
        self._admission = Admission()

    # ------------------------------------------------------------------ opening and closing

    async def __aenter__(self) -> Self:
        import windlass.api.session  # noqa: F401, PLC0415 - here, so that the first turn waits for no import
        from windlass.engines.local import LocalEngine  # noqa: PLC0415 - see above
        from windlass.engines.worker import Worker  # noqa: PLC0415
        from windlass.runtime.services import Feeds, Services  # noqa: PLC0415

        if self._admission.is_open:
            raise ConfigError("Runtime: is open already", field="Runtime")
        store = self._store or open_store(self._address, self._durability)
        self._store = None
        if isinstance(self._address, str):
            await store.open()
        services = Services(
            store=store,
            clock=self._clock,
            feeds=Feeds(self._clock),
            place=_place(),
            **self._for_turns,
        )
        worker = Worker(
            services, self._programs, retention_ms=self._retention_ms, **self._for_worker
        )
        self._admission.open(worker)
        try:
            await worker.open(LocalEngine(store))
        except BaseException as error:
            await self._close_beside(error)
            raise
        return self

    async def __aexit__(
        self, _kind: object, error: BaseException | None = None, _trace: object = None
    ) -> None:
        if error is None:
            await self._close()
        else:
            await self._close_beside(error)

    async def _close_beside(self, error: BaseException) -> None:
        """Close while an error is on its way to the caller, who gets that one: it says more than what closing says."""
        try:
            await self._close()
        except Exception as failure:  # noqa: BLE001 - it is told with the error
            _log.warning("closing the runtime: %s", failure)
            error.add_note(f"closing the runtime failed as well: {failure}")

    async def _close(self) -> None:
        """Stop driving, and close what this runtime opened; ends no turn.

        Raises:
            StoreError: the store could not be told. Threads, locks and files are released all the same.
        """
        worker = self._admission.close()
        async with AsyncExitStack() as ours:
            if isinstance(self._address, str):
                ours.push_async_callback(worker.services.store.close)
            ours.push_async_callback(self._models.aclose)
            await worker.close()

    @property
    def _worker(self) -> Worker:
        return self._admission.worker

    @property
    def _services(self) -> Services:
        return self._admission.services

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
        input: Input,
        *,
        output_type: Any = None,
        **options: Unpack[WatchOptions],
    ) -> TurnResult[Any]:
        """Open the runtime, run one turn and close the runtime again, for code that does not await.

        It takes what `session.run` takes.
        """

        async def run() -> TurnResult[Any]:
            async with self:
                session: Session[Any] = self.session(session_id)
                return await session.run(input, output_type=output_type, **options)

        return run_blocking(run)

    # ------------------------------------------------------------------ sessions and turns

    @overload
    def session(self, id: str, agent: Agent[Any, P]) -> Session[P]: ...
    @overload
    def session(self, id: str, agent: str | None = None) -> Session[O]: ...
    def session(self, id: str, agent: Agent[Any, Any] | str | None = None) -> Session[Any]:
        """Return a session. It does no I/O: the session is stored when its first turn is accepted.

        Args:
            id: The session's id, as the caller chooses it.
            agent: Whose session it is, if it is new and the runtime has several agents.
        """
        from windlass.api.session import Session  # noqa: PLC0415 - see above

        name = agent.name if isinstance(agent, Agent) else agent
        if name is None:
            owner = self._names[0] if len(self._names) == 1 else None
        elif name in self._programs:
            owner = self._programs[name].name
        else:
            raise ConfigError.at("agent", name, "one of this runtime's agents")
        return Session(self._admission, self._models, id, owner)

    async def import_session(
        self, lines: str | Iterable[str], *, id: str | None = None
    ) -> Session[O]:
        """Make a session of what `export_session` returned, in this store or another: all of it or nothing.

        The next turn goes on from its history. Remembered approvals are not taken over, and what its turns used does not
        count as used here.

        Args:
            lines: The lines, or a text of them; they are checked against their digests first.
            id: Another id for it; the id that it had, if none is given.
        """
        from windlass.api.archive import import_session  # noqa: PLC0415 - see above

        services = self._services
        now_ms = self._clock.now_ms()
        made = await import_session(services.store, lines, session_id=id, now_ms=now_ms)
        return self.session(made.session_id)

    def turn(self, session_id: str, turn_id: str) -> TurnHandle[O]:
        """Return a turn by its id, wherever it runs."""
        check_id(session_id, field="session_id")
        check_id(turn_id, field="turn_id")
        from windlass.api.turn_handle import TurnHandle  # noqa: PLC0415 - see above

        return TurnHandle(self._admission, session_id, turn_id)

    async def cancel(self, session_id: str, turn_id: str, reason: str = "") -> CancelReceipt:
        """Ask for a turn to end, wherever it runs.

        Args:
            session_id: The turn's session.
            turn_id: The turn.
            reason: Goes into the outcome: `Stopped(reason="cancelled", detail=reason)`.
        """
        return await self._admission.cancel(session_id, turn_id, reason)

    # ------------------------------------------------------------------ the whole

    async def vacuum(self, *, compact: bool = False) -> VacuumReport:
        """Reclaim journals of turns that ended longer ago than `retention`, and what nothing refers to.

        Args:
            compact: Give all free space back to the file system. Every process that writes waits while what is in use
                is copied, and the disk needs room for that copy, twice. Without it the store does so by itself where
                more than half of the file is free and the copy is small.
        """
        return await self._services.store.vacuum(
            now_ms=self._clock.now_ms(), retention_ms=self._retention_ms, compact=compact
        )

    async def status(self) -> RuntimeStatus:
        """Return what this runtime is doing, and what it leaves to others."""
        services, now_ms = self._services, self._clock.now_ms()
        ask = partial(services.store.due, now_ms, limit=_SHOWN + 1)
        # Asked for apart: thousands of turns of others do not hide ours.
        ours, found = (await ask(agents=tuple(self._programs))).turns, (await ask()).turns
        foreign = tuple(turn for turn in found if turn.agent not in self._programs)
        waits = await self.waits()
        return RuntimeStatus(
            worker_id=services.worker_id or None,
            is_durable=services.store.is_durable,
            agents=self._names,
            driving=tuple(self._worker.driving),
            due=ours[:_SHOWN],
            foreign=foreign[:_SHOWN],
            has_more=max(len(ours), len(found)) > _SHOWN,
            open_waits=len(waits),
            dropped=tuple(self._worker.dropped),
        )

    @property
    def processes(self) -> Any:  # noqa: ANN401 - not there yet
        """This release has no processes: raises ConfigError."""
        raise ConfigError("Runtime.processes: this release has no processes", field="processes")

    @property
    def triggers(self) -> Any:  # noqa: ANN401 - not there yet
        """This release has no triggers: raises ConfigError."""
        raise ConfigError("Runtime.triggers: this release has no triggers", field="triggers")


def _place() -> str:
    """Return host and process; asked when a runtime opens, because it may have been made before a fork."""
    # A host may have any bytes for a name, and the journal takes only text.
    host = uname().nodename.encode("ascii", "replace").decode()
    return f"{host}:{getpid()}"


def _compiled(
    agents: Sequence[Agent[Any, Any]], models: KnownModels, plugins: Sequence[Plugin]
) -> dict[str, Program]:
    programs: dict[str, Program] = {}
    for agent in agents:
        if not isinstance(agent, Agent):
            raise ConfigError.at("agents", type(agent).__name__, "agents")
        program = agent.compiled(models, plugins)
        models.add(program.model)
        for name in (agent.name, *agent.aliases):
            if name in programs:
                raise ConfigError.at("agents", f"two agents called {name}", "each name once")
            programs[name] = program
    return programs


def _check(field: str, holds: bool, wanted: str) -> None:  # noqa: FBT001 - a claim about the field
    if not holds:
        raise ConfigError(f"Runtime.{field}: wanted {wanted}", field=field, wanted=wanted)


def _is_within(found: object, least: float, most: float) -> bool:
    return type(found) in (int, float) and least <= found <= most  # type: ignore[operator]  # a number
