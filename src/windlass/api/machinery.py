"""What stands behind a runtime, its sessions and its turns: the store, the worker, the way in."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from os import urandom
from typing import Any

import msgspec

from windlass.api.adapters import Durability, open_store
from windlass.api.known_models import KnownModels
from windlass.errors import ConfigError, UnknownSession
from windlass.guards.ids import check_id
from windlass.guards.limits import check_limit
from windlass.guards.text import check_text
from windlass.journal import UsageLine
from windlass.kernel.messages import Message
from windlass.ports import CancelReceipt, Store, TurnView, Wait
from windlass.ports.clock import Clock
from windlass.ports.price import Price
from windlass.runtime.feeds import Feeds
from windlass.runtime.program import Program
from windlass.runtime.services import Services

_WAITS_AT_ONCE = 1_000


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How a runtime was set up; `services` is what it hands on to every turn."""

    store: str | Store
    durability: Durability = "power"
    clock: Clock
    is_worker: bool = True
    max_turns: int = 32
    retention_ms: int = 7 * 86_400_000
    prices: Mapping[str, Price] | None = None
    services: Mapping[str, Any] = {}


class Machinery:
    """The parts of one runtime, there while it is open."""

    def __init__(
        self, settings: Settings, programs: Mapping[str, Program], models: KnownModels
    ) -> None:
        self._settings = settings
        self.clock = settings.clock
        self.prices = settings.prices
        self.programs = programs
        self.models = models
        self.names = tuple(dict.fromkeys(program.name for program in programs.values()))
        # Made here already, so that an address which is none is refused where it is written.
        self._store: Store | None = open_store(settings.store, settings.durability)
        self._services: Services | None = None

    # ------------------------------------------------------------------ opening and closing

    async def open(self) -> None:
        """Open the store if it is ours, and begin to drive."""
        # Who only describes agents, or opens nothing, does not load what drives them.
        from windlass.engines.admission import Admission  # noqa: PLC0415
        from windlass.engines.local import LocalEngine  # noqa: PLC0415

        if self._services is not None:
            raise ConfigError("Runtime: is open already", field="Runtime")
        settings = self._settings
        self._loop = asyncio.get_running_loop()
        store = self._store or open_store(settings.store, settings.durability)
        self._store = None
        if isinstance(settings.store, str):
            await store.open()
        self._services = services = Services(
            store=store, clock=self.clock, feeds=Feeds(self.clock), **settings.services
        )
        self.engine = LocalEngine(
            services,
            self.programs,
            is_worker=settings.is_worker,
            max_turns=settings.max_turns,
            retention_ms=settings.retention_ms,
        )
        self.admission = Admission(services, self.engine)
        try:
            await self.engine.open()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Stop driving, and close what is ours; ends no turn."""
        services, self._services = self.services, None
        async with AsyncExitStack() as ours:
            if isinstance(self._settings.store, str):
                ours.push_async_callback(services.store.close)
            ours.push_async_callback(self.models.aclose)
            await self.engine.close()

    @property
    def services(self) -> Services:
        """What turns share.

        Raises:
            ConfigError: the runtime is not open, or belongs to another event loop.
        """
        services = self._services
        if services is None:
            raise ConfigError("Runtime: is not open; use it in `async with`", field="Runtime")
        if asyncio.get_running_loop() is not self._loop:
            raise ConfigError("Runtime: belongs to another event loop", field="Runtime")
        return services

    def check_open(self) -> None:
        """Refuse to work while the runtime is not open here."""
        self.services  # noqa: B018 - it refuses

    @property
    def store(self) -> Store:
        """The store."""
        return self.services.store

    # ------------------------------------------------------------------ what several need

    async def cancel(self, session_id: str, turn_id: str, reason: str) -> CancelReceipt:
        """Ask for a turn to end, wherever it runs."""
        check_id(session_id, field="session_id")
        check_id(turn_id, field="turn_id")
        check_text(reason, field="reason")
        check_limit("metadata_bytes", len(reason.encode()), field="reason")
        await self.engine.flush(session_id)
        receipt = await self.store.request_cancel(
            session_id, turn_id, reason=reason, now_ms=self.clock.now_ms()
        )
        if receipt.status == "requested":
            self.engine.cancel(session_id, turn_id, reason)
        return receipt

    async def open_waits(self, kind: str | None = None) -> tuple[Wait, ...]:
        """Return all open waits, oldest first."""
        limit = _WAITS_AT_ONCE
        while len(found := await self.store.list_waits(kind=kind, limit=limit)) == limit:
            limit *= 10
        return tuple(view.wait for view in found)

    async def used(self, session_id: str) -> tuple[UsageLine, ...]:
        """Return what a session has used, its unfinished turn included: a parked one was paid for already."""
        session = await self.store.load_session(session_id, history=False)
        if session.active is None:
            return session.usage
        turn = await self.store.load_turn(session_id, session.active)
        if turn is None or turn.state == "done":  # it ended between the two looks
            return await self.used(session_id)
        return (*session.usage, *turn.journal().usage())

    async def view(self, session_id: str, turn_id: str) -> TurnView:
        """Return a turn as it stands.

        Raises:
            UnknownSession: there is none.
        """
        await self.engine.flush(session_id)
        view = await self.store.load_turn(session_id, turn_id)
        if view is None:
            raise UnknownSession(f"turn {turn_id}: is not known", field="turn_id")
        return view

    async def messages_so_far(self, view: TurnView) -> tuple[Message, ...]:
        """Return a turn's messages: committed ones, or a view of what its journal holds."""
        # It replays a turn with what drives turns: see open.
        from windlass.runtime.provisional import provisional_messages  # noqa: PLC0415

        return await provisional_messages(self.store, view, self.programs.get(view.agent))

    async def agent_of(self, session_id: str) -> str:
        """Return the agent that a session is of.

        Raises:
            ConfigError: it is new, and there is more than one agent to choose from.
        """
        if len(self.names) == 1:
            return self.names[0]
        try:
            view = await self.store.load_session(session_id, history=False)
        except UnknownSession:
            raise ConfigError(
                f"agent: session {session_id} is new and this runtime has {len(self.names)} agents; "
                "name one: rt.session(id, agent)",
                field="agent",
            ) from None
        return view.agent


def fresh_id(kind: str) -> str:
    """Return a new id for something that its caller did not name."""
    return f"{kind}_{urandom(12).hex()}"
