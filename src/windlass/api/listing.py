"""A store as a whole: its sessions and turns, a page at a time; one as text; what they used and do; its background work."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, get_args

from windlass.errors import InvalidInput
from windlass.guards import check_text
from windlass.guards.limits import check_page
from windlass.ports import SessionKind, SessionSummary, TurnState, TurnSummary

if TYPE_CHECKING:
    # As in `runtime`: loaded when they are needed.
    from windlass.api.notices import NoticeKind, Notices
    from windlass.api.processes import Processes
    from windlass.api.programs import DeclaredWork
    from windlass.api.schedules import Schedules
    from windlass.api.trigger import Source
    from windlass.api.triggers import Triggers
    from windlass.api.usage_report import UsageReport
    from windlass.engines.admission import Admission
    from windlass.ports.trigger import EmitReceipt


class Listing:
    """What a runtime shows of its whole store, and how callers reach the background work in it."""

    _admission: Admission
    _work: DeclaredWork

    async def sessions(
        self,
        *,
        after: str = "",
        limit: int = 100,
        agent: str | None = None,
        kind: SessionKind | None = "chat",
        started_by: str | None = None,
    ) -> tuple[SessionSummary, ...]:
        """Return sessions by id, a page at a time.

        Args:
            after: The last id of the page before.
            limit: How many to return at most.
            agent: Only sessions of this agent.
            kind: Only sessions of this kind; None for every kind.
            started_by: Only sessions that this one started.
        """
        check_text(after, field="after")
        _check_one_of("kind", kind, get_args(SessionKind))
        return await self._admission.services.store.list_sessions(
            after=after, limit=check_page(limit), agent=agent, kind=kind, started_by=started_by
        )

    async def turns(
        self,
        *,
        state: TurnState | None = None,
        agent: str | None = None,
        session_id: str | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> tuple[TurnSummary, ...]:
        """Return turns, the newest first, a page at a time.

        Args:
            state: Only turns in this state: queued, running, parked, ready or done.
            agent: Only turns of this agent.
            session_id: Only turns of this session.
            before: The `no` of the last turn of the page before.
            limit: How many to return at most.
        """
        _check_one_of("state", state, get_args(TurnState))
        if before is not None and (type(before) is not int or before < 1):
            raise InvalidInput("before: wanted the number of a turn", field="before")
        return await self._admission.services.store.list_turns(
            state=state, agent=agent, session_id=session_id, before=before, limit=check_page(limit)
        )

    def observe(
        self,
        *,
        sessions: Collection[str] | None = None,
        kinds: Collection[NoticeKind] | None = None,
        cursor: str | None = None,
    ) -> Notices:
        """Watch all sessions: turns that begin, rest and end, waits that open and are answered, workers that come and go.

        Args:
            sessions: Only what happens in these.
            kinds: Only notices of these kinds.
            cursor: The `cursor` of a notice, to go on behind it, in any process.
        """
        from windlass.api.notices import Notices  # noqa: PLC0415 - see above

        return Notices(self._admission, sessions=sessions, kinds=kinds, cursor=cursor)

    async def export_session(self, id: str) -> list[str]:
        """Return a session as text, a line per turn and per attachment: what `import_session` reads.

        Args:
            id: The session. Its unfinished turn is not exported.
        """
        from windlass.api.archive import export_session  # noqa: PLC0415 - see above

        return await export_session(self._admission.services.store, id)

    async def usage(self) -> UsageReport:
        """Return what all sessions of the store have used."""
        from windlass.api.trees import usage_of_store  # noqa: PLC0415 - see above
        from windlass.api.usage_report import UsageReport  # noqa: PLC0415

        services = self._admission.services
        return UsageReport.of(await usage_of_store(services.store), services.prices)

    # ------------------------------------------------------------------ background work

    @property
    def processes(self) -> Processes:
        """The processes of the store: start, find and list them, whichever worker drives them."""
        from windlass.api.processes import Processes  # noqa: PLC0415 - see above

        return Processes(self._admission)

    @property
    def schedules(self) -> Schedules:
        """The schedules of the store: list, pause, run, add and remove them."""
        from windlass.api.schedules import Schedules  # noqa: PLC0415 - see above

        return Schedules(self._admission, self._work.schedules)

    @property
    def triggers(self) -> Triggers:
        """The sources of events and their subscribers: list them, and see what became of events."""
        from windlass.api.triggers import Triggers  # noqa: PLC0415 - see above

        return Triggers(self._admission, self._work.delivering)

    async def emit(
        self, source: Source[Any] | str, event: object, *, key: str | None = None
    ) -> EmitReceipt:
        """Store an event, in one commit. After it windlass delivers the event, whatever happens here.

        Args:
            source: The source, or its name. If this runtime does not declare the name, the event is only checked as JSON.
            event: The payload: an object of the source's type, or JSON that fits it.
            key: Identifies the event within its source, such as the sender's id of it. Until `receipt.known_until` the same
                key with the same payload is the same event. Without a key, each call emits a new event.

        Raises:
            InvalidInput: the payload does not fit; names the field. Nothing is stored.
            IdempotencyConflict: the key is known with another payload.
        """
        return await self.triggers.emit(source, event, key=key)


def _check_one_of(field: str, found: object, known: tuple[str, ...]) -> None:
    if found is not None and found not in known:
        raise InvalidInput.at(field, repr(found)[:40], f"one of {', '.join(known)}")
