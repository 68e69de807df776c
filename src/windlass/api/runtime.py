"""A runtime: owns a store and a worker, opens sessions, drives and recovers turns.

Length: a good part of it is what each setting and argument means, and the overloads that give results their types.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import partial
from os import getpid, uname
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    Self,
    TypedDict,
    TypeVar,
    Unpack,
    overload,
)

from windlass.api.adapters import Durability, KnownModels, StoreAddress, address_of, open_store
from windlass.api.agent import Agent, check, listed, run_blocking
from windlass.api.answers import Answering
from windlass.api.listing import Listing
from windlass.errors import ConfigError
from windlass.guards import check_id, is_id
from windlass.kernel.value import Value
from windlass.ports import (
    CancelReceipt,
    Clock,
    DueTurn,
    Engine,
    ErrandReceipt,
    Model,
    PhaseProbe,
    Plugin,
    Store,
    VacuumReport,
)
from windlass.ports.price import Price, checked_prices
from windlass.runtime.plugin_set import PluginSet
from windlass.tools.declaration import is_background

if TYPE_CHECKING:
    # Loaded when a runtime is made or opened: a program that only describes agents needs none of it.
    from windlass.api.batch import Batch, BatchInputs, BatchOptions
    from windlass.api.process import Process
    from windlass.api.programs import AnyDeps, DepsFactory
    from windlass.api.schedule import Schedule
    from windlass.api.session import Session
    from windlass.api.trigger import Source, Subscription
    from windlass.api.turn_handle import TurnHandle
    from windlass.api.turn_options import Input, WatchOptions
    from windlass.api.turn_result import TurnResult
    from windlass.engines.worker import Worker
    from windlass.ports.policy import Approver
    from windlass.runtime.program import Program
    from windlass.runtime.retention import Retention
    from windlass.runtime.services import Services

D = TypeVar("D")
O = TypeVar("O")  # noqa: E741 - the output's type
P = TypeVar("P")
_DAY_S = 86_400.0
# How many turns of a kind a status shows.
_SHOWN = 100
_log = logging.getLogger("windlass")


class RuntimeStatus(Value, kw_only=True):
    """What a runtime is doing.

    Attributes:
        worker_id: Its id among the store's workers; None if it drives nothing.
        is_durable: Whether its store outlives the process.
        agents: The names of the agents whose turns it drives.
        processes: The names of the processes that it drives.
        driving: The sessions in which it drives a turn.
        due: The oldest turns that it could take up now.
        foreign: The oldest turns that are due and belong to agents that it does not have.
        has_more: Whether there are more turns of either kind than are shown.
        open_waits: How many waits of the store are open.
        dropped: The last errands of turns here whose target was gone.
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
    processes: tuple[str, ...] = ()


class RuntimeOptions(TypedDict, total=False):
    """What a runtime may be given beside its agents; `Runtime` says what each is for."""

    store: StoreAddress
    engine: Literal["local"] | Engine
    approve: Approver | None
    plugins: Sequence[Plugin]
    worker: bool
    max_turns: int
    only_session: str | None
    lease_s: float
    durability: Durability
    retention: float | Retention
    on_mismatch: Literal["park", "accept"]
    models: Sequence[Model]
    prices: Mapping[str, Price] | None
    clock: Clock | None
    probe: PhaseProbe | None
    processes: Sequence[Process[Any]]
    schedules: Sequence[Schedule]
    triggers: Sequence[Source[Any] | Subscription]


class Runtime(Answering, Listing, Generic[O]):
    """Drives the turns of its agents: `async with Runtime(agent, store="sqlite:///app.db") as rt`.

    Args:
        *agents: The agents whose turns it drives, and with them the agents that are tools of theirs. Without any, and
            without processes, it only reads, submits and answers.
        store: A SQLite file, by its path or as `sqlite:///FILE`; `memory:`, which ends with the process; or a `Store`
            that the caller opens and closes.
        engine: What says when to look for work: `local`, a timer in this process, or an `Engine`.
        deps: Makes what tools work with, once per drive: a function of `TurnInfo`, sync or async, that returns it or an
            async context manager of it. For agents with different deps, such functions by the agent's name.
        approve: Answers approvals in this process: a function of the `Wait`, sync or async. True or `Approve` allows,
            `Deny` and anything else denies; if it raises, the question stays open. Others may answer before it does.
        plugins: Plugins for all agents; they come before an agent's own.
        worker: False: accept and watch turns, but leave driving to other processes.
        max_turns: How many turns to drive at a time.
        only_session: The one session whose turns it takes up; those of others are left to other processes. For one
            agent that starts no others and has no background work.
        lease_s: After how many silent seconds other workers take over this one's turns.
        durability: What SQLite survives: `power` loss, or the end of the `process` only.
        retention: For how many seconds the journals of ended turns are kept; or a `Retention`, which also says it of
            subagents, processes, schedules and triggers.
        on_mismatch: What to do with a turn whose agent changed while it ran: `park` it, or `accept` the change.
        models: Models that turns may name.
        prices: Prices per model; they go before the prices that windlass knows.
        clock: Another clock than the system's, for tests.
        probe: Is told when a turn enters and leaves a phase, for measurements.
        processes: The processes that it drives, as `@process` makes them. They have no policy and no plugins, also not
            those of the runtime. Their deps come from `deps`, by the name of the process if it is a mapping.
        schedules: Functions with `@schedule`; it drives them, and sees to it that their next tick waits.
        triggers: Functions with `@on` that events are delivered to, and sources that have none here. This runtime
            delivers the events of all their sources.
    """

    @overload
    def __init__(
        self: Runtime[Any], *, deps: AnyDeps | None = None, **options: Unpack[RuntimeOptions]
    ) -> None: ...
    @overload
    def __init__(
        self,
        agent: Agent[D, O],
        /,
        *,
        deps: DepsFactory[D] | Mapping[str, DepsFactory[D]] | None = None,
        **options: Unpack[RuntimeOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        first: Agent[Any, O],
        second: Agent[Any, O],
        /,
        *more: Agent[Any, O],
        deps: AnyDeps | None = None,
        **options: Unpack[RuntimeOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: Runtime[Any],
        first: Agent[Any, Any],
        second: Agent[Any, Any],
        /,
        *more: Agent[Any, Any],
        deps: AnyDeps | None = None,
        **options: Unpack[RuntimeOptions],
    ) -> None: ...
    def __init__(  # noqa: PLR0913 - every setting has a default
        self,
        *agents: Agent[Any, O],
        store: StoreAddress = "sqlite:///windlass.db",
        engine: Literal["local"] | Engine = "local",
        deps: AnyDeps | None = None,
        approve: Approver | None = None,
        plugins: Sequence[Plugin] = (),
        worker: bool = True,
        max_turns: int = 32,
        only_session: str | None = None,
        lease_s: float = 15,
        durability: Durability = "power",
        retention: float | Retention = 7 * _DAY_S,
        on_mismatch: Literal["park", "accept"] = "park",
        models: Sequence[Model] = (),
        prices: Mapping[str, Price] | None = None,
        clock: Clock | None = None,
        probe: PhaseProbe | None = None,
        processes: Sequence[Process[Any]] = (),
        schedules: Sequence[Schedule] = (),
        triggers: Sequence[Source[Any] | Subscription] = (),
    ) -> None:
        from windlass.engines.admission import Admission  # noqa: PLC0415 - see above
        from windlass.runtime.system_clock import SystemClock  # noqa: PLC0415 - imports asyncio

        is_engine = all(callable(getattr(engine, one, None)) for one in ("open", "kick", "close"))
        check("engine", engine == "local" or is_engine, "local or an Engine")
        check("max_turns", type(max_turns) is int and max_turns > 0, "a whole number above 0")
        check("lease_s", _is_within(lease_s, 0.1, 3600), "0.1 to 3600 seconds")
        check("on_mismatch", on_mismatch in ("park", "accept"), "park or accept")
        check("approve", approve is None or callable(approve), "a function of the wait")
        check("worker", isinstance(worker, bool), "True or False")
        for at, model in enumerate(listed(models, "Runtime.models")):
            is_model = callable(getattr(model, "complete", None)) and hasattr(model, "name")
            check(f"models[{at}]", is_model, "a Model")
        self._models = KnownModels(models)
        first = PluginSet(listed(plugins, "Runtime.plugins"), field="Runtime.plugins").plugins
        known = {"processes": processes, "schedules": schedules, "triggers": triggers}
        work = {name: listed(some, f"Runtime.{name}") for name, some in known.items()}
        self._retention = _retention_of(retention)
        self._programs = self._compiled(agents, first, deps, work)
        _check_only(only_session, agents, self._names, work)
        self._address, self._durability = address_of(store), durability
        self._engine = engine
        # Made here already, so that a wrong address is refused where it is written.
        self._store: Store | None = open_store(self._address, durability)
        self._clock = clock or SystemClock()
        self._for_worker: dict[str, Any] = {
            "is_worker": worker, "max_turns": max_turns, "only_session": only_session,
        }  # fmt: skip
        self._for_turns: dict[str, Any] = {
            "approve": approve,
            "on_mismatch": on_mismatch,
            "probe": probe,
            "lease_ms": int(lease_s * 1000),
            "prices": None if prices is None else checked_prices(prices, field="Runtime.prices"),
        }
        self._admission = Admission()

    def _compiled(
        self,
        agents: Sequence[Agent[Any, Any]],
        plugins: Sequence[Plugin],
        deps: AnyDeps | None,
        work: Mapping[str, Sequence[Any]],
    ) -> dict[str, Program]:
        """Return what the runtime drives, by name: agents, those that they call, and background work."""
        from windlass.api.programs import (  # noqa: PLC0415 - see above
            compiled,
            declared_work,
            factories,
            with_called,
        )

        driven = with_called(agents)
        named = (*driven, *(one for some in work.values() for one in some))
        made_by = factories(deps, [getattr(one, "name", "") for one in named])
        programs = compiled(driven, self._models, plugins, made_by)
        self._names = tuple({one.name: one for one in programs.values() if one.code is None})
        # Whose session one is that names no agent: the only one that was named here.
        self._default = agents[0].name if len(agents) == 1 else None
        self._work = declared_work(work, self._models.find, made_by, self._retention)
        return {**programs, **self._work.programs}

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
            sources={name: one.source for name, one in self._work.delivering.items()},
            **self._for_turns,
        )
        worker = Worker(services, self._programs, retention=self._retention, **self._for_worker)
        self._admission.open(worker)
        try:
            engine = self._engine
            if self._work.schedules and self._for_worker["is_worker"]:
                await self.schedules.settle()
            await worker.open(LocalEngine(store) if isinstance(engine, str) else engine)
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

        Args:
            session_id: The session to run the turn in.
            input: Text, an `Attachment`, or a list of both.
            output_type: The type that the answer is to have; without it, what the agent says, or text.
            **options: What `session.run` takes.
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
            owner = self._default
        elif name in self._programs and self._programs[name].code is None:
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
        """Return a turn by its id, wherever it runs.

        Args:
            session_id: The session that the turn belongs to.
            turn_id: The id of the turn in that session.
        """
        check_id(session_id, field="session_id")
        check_id(turn_id, field="turn_id")
        from windlass.api.turn_handle import TurnHandle  # noqa: PLC0415 - see above

        return TurnHandle(self._admission, session_id, turn_id)

    async def cancel(self, session_id: str, turn_id: str, reason: str = "") -> CancelReceipt:
        """Ask for a turn to end, wherever it runs.

        Args:
            session_id: The session that the turn belongs to.
            turn_id: The id of the turn in that session.
            reason: Goes into the outcome: `Stopped(reason="cancelled", detail=reason)`.
        """
        return await self._admission.cancel(session_id, turn_id, reason)

    @overload
    def map(
        self,
        inputs: BatchInputs,
        *,
        agent: Agent[Any, Any] | str | None = None,
        output_type: type[P],
        **options: Unpack[BatchOptions],
    ) -> Batch[P]: ...
    @overload
    def map(
        self,
        inputs: BatchInputs,
        *,
        agent: Agent[Any, P],
        output_type: None = None,
        **options: Unpack[BatchOptions],
    ) -> Batch[P]: ...
    @overload
    def map(
        self,
        inputs: BatchInputs,
        *,
        agent: str | None = None,
        output_type: None = None,
        **options: Unpack[BatchOptions],
    ) -> Batch[O]: ...
    def map(
        self,
        inputs: BatchInputs,
        *,
        agent: Agent[Any, Any] | str | None = None,
        output_type: Any = None,
        **options: Unpack[BatchOptions],
    ) -> Batch[Any]:
        """Run a turn for each input, several at a time: `await rt.map(...)`, or `async for item in rt.map(...)`.

        Run the script again after a crash: it goes on where it was, and pays for nothing twice. Failures are items, not
        exceptions.

        Args:
            inputs: Inputs, or `(session_id, input)`, or `(session_id, input, turn_id)`: a list, or a generator, sync or
                async. An input without a session gets one whose id derives from `batch` and from what the input is.
            agent: Whose sessions these are, if the runtime has several agents.
            output_type: The type that the answers are to have; without it, what the agent says, or text.
            **options: `batch` (default `map`) names the batch; it is the turn id where an input names none.
                `concurrency` (8) is how many inputs are worked on at a time; `Runtime(max_turns=)` bounds it, too.
                `progress=True` draws a bar if stderr is a terminal; a function is called with a `BatchProgress`.
                `total` is how many inputs a generator has, for the bar. `through_parks` says which parks are waited
                through, as for `TurnHandle.result`: by default those that end by themselves (`provider`, `timer`); an
                item that waits for something else is given as parked. `raise_failures=True` raises an `ExceptionGroup`
                at the end if items failed. All others are those of `session.run`, for each turn.
        """
        from windlass.api.batch import Batch  # noqa: PLC0415 - see above

        return Batch(
            self._admission, partial(self.session, agent=agent), inputs, output_type, options
        )

    # ------------------------------------------------------------------ the whole

    async def vacuum(self, *, compact: bool = False) -> VacuumReport:
        """Reclaim what ended longer ago than `retention`, and what nothing refers to.

        Args:
            compact: Give all free space back to the file system. Every process that writes waits while what is in use
                is copied, and the disk needs room for that copy, twice. Without it the store does so by itself where
                more than half of the file is free and the copy is small.
        """
        return await self._services.store.vacuum(
            now_ms=self._clock.now_ms(),
            retention_ms=self._retention.journals_ms,
            keep_ms=self._retention.keep_ms(),
            compact=compact,
        )

    async def status(self) -> RuntimeStatus:
        """Return what this runtime is doing, and what it leaves to others."""
        from windlass.ports.process import PROGRAM  # noqa: PLC0415 - see above

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
            processes=tuple(
                one.code.spec.name
                for one in self._programs.values()
                if one.name.startswith(PROGRAM)
                and one.code is not None
                and one.code.spec is not None
            ),
        )


def _retention_of(given: float | Retention) -> Retention:
    from windlass.runtime.retention import Retention  # noqa: PLC0415 - see above

    if isinstance(given, Retention):
        return given
    check("retention", _is_within(given, 0, 1e9), "seconds of 0 or more, or a Retention")
    return Retention(journals=timedelta(seconds=given))


def _place() -> str:
    """Return host and process; asked when a runtime opens, because it may have been made before a fork."""
    # A host may have any bytes for a name, and the journal takes only text.
    host = uname().nodename.encode("ascii", "replace").decode()
    return f"{host}:{getpid()}"


def _check_only(
    session: str | None,
    agents: Sequence[Agent[Any, Any]],
    driven: Sequence[str],
    work: Mapping[str, Sequence[Any]],
) -> None:
    """Refuse to drive one session alone for agents that begin turns in others: those would wait for ever."""
    if session is None:
        return
    check("only_session", is_id(session), "a session's id")
    is_alone = len(agents) == len(driven) == 1 and not any(work.values())
    starts_none = is_alone and not any(map(is_background, agents[0].toolbox))
    check("only_session", starts_none, "one agent, without subagents and background work")


def _is_within(found: object, least: float, most: float) -> bool:
    return type(found) in (int, float) and least <= found <= most  # type: ignore[operator]  # a number
